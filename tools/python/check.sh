#!/usr/bin/env bash
# The Python package as a user gets it: builds the wheel, installs it into a fresh environment, runs its tests.
# `tools/python/check.sh` says `not checked:` if Python is missing, or pip cannot fetch what the tests import; a failure of
# the build or of a test is one of the script.
set -euo pipefail
cd "$(dirname "$0")"

unchecked() {
    echo "not checked: Python package ($1)" >&2
    exit 0
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || unchecked "no Python 3.9 or later"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv" >/dev/null 2>&1 || unchecked "Python cannot make a virtual environment"
pip() { "$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install maturin numpy pyarrow pandas matplotlib pytest 2>"$folder/pip" ||
    unchecked "pip cannot install its tools: $(tail -n 1 "$folder/pip")"
# Dependencies are those of the tests of the workspace, which are compiled already.
"$folder/venv/bin/maturin" build --quiet --profile "${FEDCAST_PYTHON_PROFILE:-dev}" --out "$folder/wheels"
(cd ../.. && cargo clippy --quiet -p fedcast-python -- -D warnings)
pip install --no-deps "$folder"/wheels/fedcast-*.whl
# Away from the sources: the installed package is tested.
mkdir "$folder/run"
cd "$folder/run"
"$folder/venv/bin/python" -m pytest --quiet -p no:cacheprovider --rootdir "$OLDPWD" "$OLDPWD/tests"
