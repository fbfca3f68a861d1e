# Runs manycore on a host, and removes all that it left there. Standard input: SIZE bytes of the program, if SIZE is not 0;
# then nothing until it ends, which ends the run. Standard output: what files of the shell print, the line MARK, the record or
# what manycore prints, and the line MARK CODE with manycore's exit code, which says that all has arrived.
# Arguments: SIZE, the path of the program if SIZE is 0, `record` or `output`, MARK, then those of manycore.
set -u
umask 077
size=$1 program=$2 sends=$3 mark=$4
shift 4
# A program that was copied before has a directory of its own, which its copier removes.
case $size in
0) folder=${program%/*}/run && mkdir "$folder" || exit 121 ;;
*) folder=$(mktemp -d "${TMPDIR:-/tmp}/manycore-fleet-XXXXXX") || exit 121 ;;
esac
trap 'rm -rf "$folder"' EXIT
# A message to a connection that is gone must not end the script without the trap above.
trap 'exit 130' HUP INT TERM PIPE
if [ "$size" -gt 0 ]; then
    program=$folder/manycore
    head -c "$size" >"$program" || {
        echo "the program cannot be written to $folder: is it full? TMPDIR can name another directory there" >&2
        exit 121
    }
    if [ "$(wc -c <"$program")" -ne "$size" ]; then
        echo "the program arrived only in part: is $folder full?" >&2
        exit 121
    fi
    chmod 700 "$program"
fi
if ! said=$("$program" --version 2>&1 >/dev/null); then
    case $said in
    *'ermission denied'*) said="Permission denied: is it on a file system without exec? TMPDIR can name another directory there" ;;
    esac
    echo "$program does not run here ($(uname -sm))${said:+: $said}" >&2
    exit 122
fi
printf '\n%s\n' "$mark"
exec 3<&0 </dev/null
# A signal that comes before the shell of the child has reset the traps is lost, so the watcher also removes this file.
: >"$folder/wanted"
if [ "$sends" = record ]; then
    set -- "$@" --out "$folder/result"
    exec 4>/dev/null
else
    # Results of subcommands that keep some.
    export MANYCORE_RESULTS="$folder/results"
    exec 4>&1
fi
(
    [ -e "$folder/wanted" ] || exit 143
    exec "$program" "$@" >&4 3<&- 4>&-
) &
child=$!
(
    read -r _ <&3
    rm -f "$folder/wanted"
    kill -TERM "$child"
) >/dev/null 2>&1 &
watcher=$!
wait "$child"
code=$?
kill "$watcher" 2>/dev/null
if [ "$sends" = record ] && [ -s "$folder/result/record.json" ]; then
    cat "$folder/result/record.json"
fi
printf '\n%s %s\n' "$mark" "$code"
exit "$code"
