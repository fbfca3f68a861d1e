#compdef manycore
# Completion of manycore for zsh.
_manycore() {
    local -a reply described going_on
    local line word
    reply=("${(@f)$(command ${words[1]} complete -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    case ${reply[1]} in
        :file) _files ;;
        :directory) _files -/ ;;
        :command)
            integer at=${words[(i)--]}
            shift $at words
            ((CURRENT -= at))
            _normal
            ;;
        *)
            for line in $reply; do
                word=${line%%$'\t'*}
                # A word that ends like this goes on.
                if [[ $word == *= ]]; then
                    going_on+=("$word")
                else
                    described+=("${word//:/\\:}:${line#*$'\t'}")
                fi
            done
            (($#going_on)) && compadd -S '' -- $going_on
            (($#described)) && _describe -V manycore described
            ;;
    esac
}

if [[ ${funcstack[1]} == _manycore ]]; then
    _manycore "$@"
else
    compdef _manycore manycore
fi
