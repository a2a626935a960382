#!/bin/sh
# Compares shoal with the real Keras and onnxruntime, which it installs into a folder of the user's cache if they are not there.
# usage: tests/keras/run.sh SHOAL [NAME...]     all models of models.py, optimizers and files of models/; or the models named
# Says so and ends well where they cannot be had.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
shoal=$(realpath "$1")
shift
place=${SHOAL_KERAS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/shoal-keras}
python=$place/bin/python
if ! KERAS_BACKEND=numpy "$python" -c 'import keras, jax, onnx, onnxruntime, h5py' 2>/dev/null; then
  mkdir -p "$(dirname "$place")"
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
failed=0
"$python" -W ignore "$here/compare.py" "$shoal" "$work" || failed=1
[ $# = 0 ] || exit $failed
"$python" -W ignore "$here/training.py" "$shoal" || failed=1
"$python" -W ignore "$here/onnx_models.py" "$shoal" "$here/../../models" || failed=1
exit $failed
