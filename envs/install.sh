#!/usr/bin/env bash
# Installs a lock file into the Python environment that is active.
# usage: install.sh LOCK [SHA256]    stops when LOCK has another checksum than SHA256
# environment: PYTHON (python); PYTORCH_INDEX, an index that has PyTorch's CPU builds, asked when pip's own settings
# lead to none
set -euo pipefail

lock=$1
python=${PYTHON:-python}
install=("$python" -m pip install -qq --disable-pip-version-check --no-deps)

if [ -n "${2:-}" ] && ! echo "$2  $lock" | sha256sum --check --status; then
    echo "$lock is not the one that this environment was written for: run 'make lock'" >&2
    exit 1
fi

# A +cpu build is not on PyPI, and the lock knows the hashes only of those that were at hand when it was made.
# So it goes first, by its version alone; pip then leaves it as it is.
torch=$(grep -oE '^torch==[^ ]+\+cpu' "$lock" || true)
if [ -n "$torch" ]; then
    echo "installing $torch"
    if ! "${install[@]}" "$torch" 2> /dev/null &&
        ! "${install[@]}" ${PYTORCH_INDEX:+--index-url "$PYTORCH_INDEX"} "$torch"; then
        echo "$torch not found: set PYTORCH_INDEX to the index that the README names (make PYTORCH_INDEX=... setup)" >&2
        exit 1
    fi
fi
echo "installing $(grep -c '^[a-z].*==' "$lock") packages of $lock; this takes minutes"
"${install[@]}" --require-hashes -r "$lock"
