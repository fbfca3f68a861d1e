# Completion of manycore for bash 4.4 or later.
_manycore() {
    local -a reply=()
    mapfile -t reply < <(command "$1" complete --line "${COMP_LINE:0:COMP_POINT}" --word "$2" 2>/dev/null)
    COMPREPLY=()
    case ${reply[0]-} in
        :file)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$2")
            ;;
        :directory)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -d -- "$2")
            ;;
        :command) _manycore_command "$2" ;;
        *) COMPREPLY=("${reply[@]%%$'\t'*}") ;;
    esac
    # A word that ends like this goes on.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}

# The command after --: with bash-completion by its own rules, else a command and then files.
_manycore_command() {
    local offset
    for ((offset = 1; offset < COMP_CWORD; offset++)); do
        [[ ${COMP_WORDS[offset]} == -- ]] && break
    done
    ((offset++))
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$offset"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$offset"
    elif ((COMP_CWORD == offset)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$1")
    else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$1")
    fi
}

complete -o nosort -F _manycore manycore
