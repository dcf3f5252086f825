# fish completion for firsttouch; `firsttouch completion fish` prints it.

function __firsttouch_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (_FIRSTTOUCH_COMPLETE=1 $words[1] $words[2..-1] "$current" 2>/dev/null)
    if test (count $lines) -gt 0
        printf '%s\n' $lines
    else
        __fish_complete_path "$current"
    end
end

complete --command firsttouch --no-files --keep-order --arguments '(__firsttouch_candidates)'
