# Checks of whole programs, for the scripts of tier 2. To be sourced; needs $work, a folder of the script's own.
passed=0 failed=0

say() { printf '\n== %s (%d s)\n' "$*" $SECONDS; }
ok() { passed=$((passed + 1)); printf 'ok    %s\n' "$*"; }
bad() { failed=$((failed + 1)); printf 'FAIL  %s\n' "$*"; }

# expect STATUS NAME COMMAND...: runs it; its output is kept in $work/out and $work/err.
expect() {
  local want=$1 name=$2 got
  shift 2
  "$@" >"$work/out" 2>"$work/err"
  got=$?
  if [ $got -eq "$want" ]; then
    ok "$name (exit $got)"
  else
    bad "$name: exit $got, want $want"
    tail -n 25 "$work/out" "$work/err" | sed 's/^/      | /'
  fi
}

# holds NAME PYTHON: evaluates an expression over d, the JSON in $work/out.
holds() {
  if python3 -c "
import json, sys
d = json.load(open('$work/out'))
assert $2, 'does not hold'" 2>"$work/why"; then
    ok "$1"
  else
    bad "$1: $(tail -n 1 "$work/why")"
    head -c 1500 "$work/out" | sed 's/^/      | /'
  fi
}

contains() { # NAME FILE TEXT
  if grep -qF -- "$3" "$2"; then
    ok "$1"
  else
    bad "$1: $2 does not say: $3"
    tail -n 12 "$2" | cut -c 1-300 | sed 's/^/      | /'
  fi
}

lacks() { # NAME FILE TEXT: a file that is empty or not there proves nothing
  if [ -s "$2" ] && ! grep -qF -- "$3" "$2"; then ok "$1"; else bad "$1: $2 is empty or says: $3"; fi
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# listens PORT PID: waits until a server that was started answers, at most ten seconds.
listens() {
  for _ in $(seq 200); do
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
    kill -0 "$2" 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}

# summary: the last line of a script, and its exit status. No check at all is a failure.
summary() {
  printf '\n%d passed, %d failed, %d s\n' $passed $failed $SECONDS
  [ $failed -eq 0 ] && [ $passed -gt 0 ]
}
