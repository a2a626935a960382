/* Sentences for people: broken between words where the terminal ends, counts with their nouns, commands as the user
 * called this program. */
#ifndef SHOAL_CLI_SAY_H
#define SHOAL_CLI_SAY_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

/* Prints lines; one that is wider than the terminal goes on in the next, `indent` blanks in. A line of columns parted
 * by two blanks is broken there. Nothing is broken where the width is not known: in a file, or in a pipe without
 * COLUMNS. */
void say(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say_indented(FILE *to, int indent, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A row of a list: two blanks, the name, what is to be said of it. */
void say_named(FILE *to, const char *name, const char *words);

/* "WHAT  COMMAND": a hint with a command that can be copied, also where it takes several lines. */
void say_command(FILE *to, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* This program as it was called: "build/shoal". For hints; messages begin with "shoal". */
const char *called(void);

/* 12288, "row" to "12,288 rows"; returns buffer. */
#define COUNTED_TEXT 96
const char *counted_text(int64_t n, const char *noun, char buffer[COUNTED_TEXT]);

#endif
