#!/usr/bin/env python3
"""Makes C of model files: embed_models.py OUT.c FILE.json ...

Each becomes a row of `embedded_models` (src/models/embedded.h): its text, and what lists of models show. The file itself is
read by the library when the model is made, so nothing of its layers is known here."""
import json
import pathlib
import sys

# What `training` calls it, and its field in shoal_model_kind.
NUMBERS = {"epochs": "epochs", "batch_size": "batch_size", "lr": "rate", "final_share": "final_share",
           "decay_factor": "decay_factor", "l2": "l2", "bias_rate": "bias_rate", "top_k": "top_k"}
TEXTS = {"data": "data", "optimizer": "optimizer", "schedule": "schedule", "transform": "transform"}
RULES = {"fixed": "SHOAL_INPUT_FIXED", "images": "SHOAL_INPUT_IMAGE", "any": "SHOAL_INPUT_ANY"}


def text(words):
    return json.dumps(words, ensure_ascii=True).replace("??", '?""?')


def fields(model):
    yield "name", text(model["name"])
    yield "summary", text(model["summary"])
    training = {"epochs": 10, "batch_size": 32, **model.get("training", {})}
    if "lr" not in training:
        sys.exit(f"{model['name']}.json: lists of models show the rate: say \"lr\"")
    for key, field in NUMBERS.items():
        if key in training:
            yield field, repr(training[key])
    for key, field in TEXTS.items():
        if key in training:
            yield field, text(training[key])
    inputs = model.get("inputs", [{"accepts": "any"}])
    first = inputs[0]
    shape = first.get("shape", [1])
    if len(inputs) > 1:
        count = 0
        for one in inputs:
            product = 1
            for size in one["shape"]:
                product *= size
            count += product
        shape = [count]
    yield "input", f"{{{len(shape)}, {{{', '.join(map(str, shape))}}}}}"
    yield "input_rule", RULES[first.get("accepts", "fixed") if len(inputs) == 1 else "fixed"]
    yield "input_min", str(first.get("min_side", 0))
    yield "sparse", str(first.get("sparse", False)).lower()
    outputs = model.get("outputs", [])
    loss = model.get("loss") or (outputs[0].get("loss") if outputs and isinstance(outputs[0], dict) else None)
    if loss:
        yield "loss", text(loss)
    targets = loss in ("mse", "mae", "huber")
    yield "classes", "0" if targets else str(model.get("parameters", {}).get("classes", 10))


def main():
    out, *paths = sys.argv[1:]
    files = [(pathlib.Path(p).stem, pathlib.Path(p).read_text()) for p in paths]
    lines = ['#include "models/embedded.h"', ""]
    for i, (name, words) in enumerate(files):
        lines.append(f"static void build_{i}(shoal_model *m, const shoal_model_options *options) {{")
        lines.append(f"  embedded_build({text(name)}, m, options);")
        lines.append("}")
    lines.append("const embedded_model embedded_models[] = {")
    for i, (name, words) in enumerate(files):
        model = json.loads(words)
        if model["name"] != name:
            sys.exit(f"{name}.json: its name is {model['name']}")
        parts = ", ".join(f".{field} = {value}" for field, value in fields(model))
        # Compact: strings of C have a limit that all compilers keep to only as a warning.
        compact = json.dumps(model, separators=(",", ":"))
        pieces = "\n     ".join(text(compact[k:k + 100]) for k in range(0, len(compact), 100))
        lines.append(f"    {{{{{parts}, .build = build_{i}}},\n     {pieces}}},")
    lines.append("    {{0}, 0},\n};")
    pathlib.Path(out).write_text("\n".join(lines) + "\n")


main()
