# What the terminal of a reader knows, for bash.
set -e

# start COMMAND...: an agent in another terminal. Commands find it by its address.
start() {
    [ -z "$agent" ] || { pkill -P "$agent" || kill "$agent"; wait "$agent" || true; } # go run has a child
    : >"$SCRATCH/agent.log" # of an agent before: the other terminal empties it at some time
    CONDUIT_API_HTTP_ADDRESS=127.0.0.1:0 "$@" >"$SCRATCH/agent.log" 2>&1 &
    agent=$!
    until grep -qs 'API ready' "$SCRATCH/agent.log"; do
        kill -0 "$agent" 2>/dev/null || { cat "$SCRATCH/agent.log"; exit 1; }
        sleep 0.02
    done
    CONDUIT_API_HTTP_ADDRESS=$(sed -n 's/.*API ready.* address=\([^ ]*\).*/\1/p' "$SCRATCH/agent.log")
    export CONDUIT_API_HTTP_ADDRESS
}

# built go build [-o DIRECTORY] ./cmd/conduit: has the binary that readers have where the go command would build it.
# Another build is that command's.
built() {
    case "$*" in
    "go build ./cmd/conduit") cp "$(command -v conduit)" . ;;
    "go build -o "*" ./cmd/conduit") cp "$(command -v conduit)" "$4" ;;
    *) "$@" ;;
    esac
}

# has TEXT: what was printed has every part of the text, which are separated by "…".
has() {
    local rest=$1 part
    while [ -n "$rest" ]; do
        part=${rest%%…*}
        [ "$part" != "$rest" ] || rest=
        rest=${rest#*…}
        part=$(sed 's/^ *//; s/ *$//' <<<"$part")
        grep -qF -- "$part" "$SCRATCH/printed" || return 1
    done
}

# prints TEXT CODE COMMAND: the command prints the text and ends with the code. One that has no
# end is ended once it has printed it, and the status is asked for until it is so: people are
# slower than a change takes.
prints() {
    case $3 in
    "tail -F"*) await "$1" "$3" ;;
    *"conduit status") await "$1" "sh -c 'while $3; do sleep 0.02; done'" ;;
    *)
        local code=0
        eval "$3" >"$SCRATCH/printed" 2>&1 || code=$?
        cat "$SCRATCH/printed"
        [ "$code" = "$2" ] || { echo "ended with $code, not $2: $3"; exit 1; }
        has "$1" || { echo "does not print '$1': $3"; exit 1; }
        ;;
    esac
}

await() {
    : >"$SCRATCH/printed"
    bash -c "exec $2" >"$SCRATCH/printed" 2>&1 &
    local reader=$! tries=0
    until has "$1"; do
        [ $((tries += 1)) -lt 6000 ] || { cat "$SCRATCH/printed"; echo "never prints '$1': $2"; exit 1; }
        sleep 0.02
    done
    kill "$reader"
}
