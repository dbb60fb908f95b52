#!/bin/sh
# Runs the program of this name, and kills its process group before, while or after one of its calls runs.
name=${0##*/}
PATH=${PATH#*:}
echo "$$ $name" >>"$CALLS"
call=$(grep -n "^$$ " "$CALLS" | tail -n 1 | cut -d : -f 1)
[ "$call" = "$KILL_CALL" ] || exec "$name" "$@"
# A server does not end by itself.
if [ "$name" = postgres ] && [ "$KILL_WHEN" = after ]; then KILL_WHEN=1; fi
case $KILL_WHEN in
  before) kill -9 0 ;;
  after)
    "$name" "$@"
    kill -9 0
    ;;
  *)
    (
      sleep "$KILL_WHEN"
      kill -9 0
    ) </dev/null >/dev/null 2>&1 9>&- &
    exec "$name" "$@"
    ;;
esac
