// Makes the page one piece: uPlot, the modules of this folder and the styles go into page.html, and that into a C file.
//   node bundle.mjs OUT.c WORK_DIR MODULE.js...
// The modules are given in an order in which imports come first; another order ends the build.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

const [out, work, ...modules] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const uplot = join(work, 'node_modules', 'uplot', 'dist');

function fetchLibraries() {
  mkdirSync(work, { recursive: true });
  for (const name of ['package.json', 'package-lock.json', '.npmrc']) copyFileSync(join(here, name), join(work, name));
  const flags = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', '--fetch-retries=1',
    '--fetch-timeout=20000', '--loglevel=error'];
  execFileSync('npm', flags, { cwd: work, stdio: ['ignore', 'ignore', 'inherit'], timeout: 120000 });
  if (!existsSync(join(uplot, 'uPlot.iife.min.js'))) throw new Error('uPlot did not come');
}

// Each module becomes a function that returns what it exports; what it imports is taken from those before it.
function joined(paths) {
  const known = new Set();
  const parts = paths.map(path => {
    const own = basename(path), exported = [];
    const body = readFileSync(path, 'utf8')
      .replace(/^import (\{[^}]*\}) from '\.\/([^']+)';$/gms, (_, names, from) => {
        if (!known.has(from)) throw new Error(`${own} imports ${from}, which does not come before it`);
        return `const ${names} = modules['${from}'];`;
      })
      .replace(/^export (?=(?:async )?(?:const|let|function|class) (\w+))/gm, (_, name) => (exported.push(name), ''));
    known.add(own);
    return `modules['${own}'] = (() => {\n${body}\nreturn { ${exported.join(', ')} };\n})();`;
  });
  return `(() => {\n'use strict';\nconst modules = {};\n${parts.join('\n')}\n})();\n`;
}

const hash = text => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

function makePage() {
  const script = readFileSync(join(uplot, 'uPlot.iife.min.js'), 'utf8') + '\n' + joined(modules);
  const style = readFileSync(join(uplot, 'uPlot.min.css'), 'utf8') + '\n' + readFileSync(join(here, 'page.css'), 'utf8');
  for (const [what, text] of [['script', script], ['style', style]])
    if (text.includes(`</${what}`)) throw new Error(`a ${what} holds its own end`);
  new Script(script); // a syntax error ends the build
  const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data:; ` +
    "connect-src 'self'; base-uri 'none'; form-action 'none'";
  const html = readFileSync(join(here, 'page.html'), 'utf8');
  const licence = readFileSync(join(uplot, '..', 'LICENSE'), 'utf8').trim();
  if (licence.includes('--')) throw new Error("uPlot's licence does not fit into a comment");
  const [head, tail, more] = html.split('{{data}}');
  if (tail === undefined || more !== undefined) throw new Error('page.html: {{data}} must stand there once');
  const fill = text => text.replace('{{policy}}', () => policy).replace('{{style}}', () => style)
    .replace('{{licence}}', () => licence).replace('{{script}}', () => script);
  return { head: fill(head), tail: fill(tail), policy };
}

function array(name, text) {
  const bytes = Buffer.from(text);
  let lines = '';
  for (let i = 0; i < bytes.length; i += 24) lines += `  ${bytes.subarray(i, i + 24).join(',')},\n`;
  return `static const unsigned char ${name}[] = {\n${lines}};\n`;
}

function write(body) {
  writeFileSync(out, `/* Made by web/bundle.mjs. */\n#include "observe/report_page.h"\n\n${body}`);
}

try {
  fetchLibraries();
} catch (error) {
  console.error(`The build goes on without the page: npm could not fetch uPlot (${error.message.split('\n')[0]})`);
  write('const report_page report_page_built = {.missing = "npm could not fetch uPlot when it was built"};\n');
  process.exit(0);
}
const page = makePage();
write(`${array('head', page.head)}${array('tail', page.tail)}
const report_page report_page_built = {
    .head = head,
    .tail = tail,
    .head_length = sizeof head,
    .tail_length = sizeof tail,
    .policy = ${JSON.stringify(page.policy + "; frame-ancestors 'none'")},
};
`);
