#!/usr/bin/env bash
# Builds the source distribution and the wheels of the tag that is checked out, checks and uploads them: docs/release.md.
#
#   packaging/publish.sh            everything; twine asks for the token of the package index
#   packaging/publish.sh --check    only what must hold before
#
# Needs git, Python with pip, and docker or podman for cibuildwheel; for aarch64 on x86-64 also qemu's binfmt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
refuse() { echo "publish: $1" >&2 && exit 1; }

address=$(sed -n 's/^Repository = "\(.*\)"/\1/p' pyproject.toml)
! [[ $address =~ ^https?://[^/]*\.example(/|$) ]] ||
    refuse "$address leads nowhere: packaging/PUBLISH.md says what to set"
! grep -q "by the form of the site that hosts" SECURITY.md ||
    refuse "SECURITY.md does not say where to report: packaging/PUBLISH.md says what to set"
[[ -z $(git status --porcelain) ]] || refuse "there are uncommitted changes"
tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null) ||
    refuse "HEAD has no tag such as v0.2.0: git tag -a v0.2.0 -m 0.2.0"
grep -q "^## \[${tag#v}\] - [0-9]" CHANGELOG.md || refuse "CHANGELOG.md has no dated section [${tag#v}]"
grep -q "^version: ${tag#v}$" CITATION.cff || refuse "CITATION.cff names another version than ${tag#v}"
[[ ${1:-} != --check ]] || exit 0

rm -rf build/publish
python3 -m venv build/publish/venv
tool=build/publish/venv/bin/python
"$tool" -m pip install -q build cibuildwheel twine
"$tool" -m build --sdist --outdir build/publish/dist
"$tool" -m cibuildwheel --output-dir build/publish/dist build/publish/dist/*.tar.gz
"$tool" -m twine check --strict build/publish/dist/*
"$tool" -m twine upload build/publish/dist/*
