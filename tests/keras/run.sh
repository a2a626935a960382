#!/bin/sh
# Compares shoal with the real Keras and onnxruntime, which it installs into a folder of the user's cache if they are not there.
# usage: tests/keras/run.sh SHOAL [NAME...]     all models of models.py and of models/, or those of models.py named
# Says so and ends well where they cannot be had.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
shoal=$(realpath "$1")
shift
place=${SHOAL_KERAS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/shoal-keras}
python=$place/bin/python
if ! "$python" -c 'import keras, jax, onnx, onnxruntime, h5py' 2>/dev/null; then
  if ! { python3 -m venv "$place" && timeout 300 "$python" -m pip install -q --retries 1 --timeout 20 \
    h5py==3.16.0 jax==0.10.2 keras==3.15.1 numpy==2.4.6 onnx==1.23.2 onnxruntime==1.31.1; } >"$place.log" 2>&1; then
    echo "skipped: Keras, JAX and onnxruntime are not there and could not be installed:"
    tail -n 2 "$place.log"
    exit 0
  fi
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -W ignore "$here/models.py" "$work" "$@"
"$python" -W ignore "$here/compare.py" "$shoal" "$work"
[ $# -gt 0 ] || "$python" -W ignore "$here/onnx_models.py" "$shoal" "$here/../../models"
