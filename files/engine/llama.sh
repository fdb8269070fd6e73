#!/bin/sh
# `llama.sh FOLDER PATTERN... -- SERVER...`: runs SERVER with the GGUF file in FOLDER that a pattern names. Of several the
# shortest name is taken, of a model's parts the first one: the server finds the others by it. Where a pattern names
# projectors (mmproj) and one is there, that is given too: in 16 bits if there is such a one.
set -eu
folder=$1
shift
named=
while [ "$1" != -- ]; do
    named="$named $1"
    shift
done
shift
set -f

# Names in FOLDER that a pattern names, the shortest first.
found() {
    (cd "$folder" && find -L . -name '*.gguf') | sed 's|^\./||' | while read -r name; do
        for pattern in $named; do
            case $name in
                $pattern) printf '%s %s\n' "${#name}" "$name"; break ;;
            esac
        done
    done | sort -k1,1n -k2 | cut -d ' ' -f 2-
}

model=$(found | grep -vi mmproj | head -n 1)
if [ -z "$model" ]; then
    echo "llama.sh: $folder has no GGUF file that is named$named" >&2
    exit 1
fi
projectors=$(found | grep -i mmproj || true)
if [ -n "$projectors" ]; then
    whole=$(echo "$projectors" | grep -iE '(^|[^b])f16' || echo "$projectors")
    set -- "$@" --mmproj "$folder/$(echo "$whole" | head -n 1)"
fi
# Where images of llama.cpp's makers have it.
PATH="$PATH:/app"
exec "$@" --model "$folder/$model"
