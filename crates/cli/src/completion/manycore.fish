# Completion of manycore for fish.
function __manycore_complete
    set -l current (commandline --current-token --cut-at-cursor)
    set -l before (commandline --tokenize --cut-at-cursor --current-process)
    set -l reply (command $before[1] complete -- $before "$current" 2>/dev/null)
    # The value of --option=VALUE.
    set -l option ''
    if string match --quiet --regex '^--[^=]*=' -- $current
        set option (string replace --regex '=.*' '=' -- $current)
    end
    set -l value (string replace --regex '^--[^=]*=' '' -- $current)
    switch "$reply[1]"
        case :file
            printf '%s\n' $option(__fish_complete_path $value)
        case :directory
            printf '%s\n' $option(__fish_complete_directories $value '')
        case :command
            set -l at (contains --index -- -- $before)
            complete --do-complete "$(string escape -- $before[(math $at + 1)..] | string join ' ') $current"
        case '*'
            printf '%s\n' $reply
    end
end

complete --command manycore --no-files --keep-order --arguments '(__manycore_complete)'
