# Messages of the scripts. The log of the commands that they run is build/setup.log.
log=build/setup.log

say() { printf '%s\n' "$*"; }

# stop WHAT [DETAIL]...: one line for what failed, indented lines for why and what next.
stop() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  shift
  (($# == 0)) || printf '  %s\n' "$@" >&2
  exit 2
}
