# .venv from the pinned requirements. A stamp in it, written last, says that it is complete.
venv=.venv
stamp="$venv/kha-setup"
constraints=build/constraints.txt
kept=build/venv.before  # the .venv that a new one replaces, until the new one is complete
venv_gigabytes=7        # the pinned torch with its CUDA libraries takes 5, pip needs room
own_torch_gigabytes=1

requirements_hash() { cat requirements.txt requirements.lock | sha256sum | cut -d ' ' -f 1; }

# stamp_line KEY: the value of a `key=value` line, empty where there is none.
stamp_line() { [[ ! -f "$stamp" ]] || sed -n "s/^$1=//p" "$stamp"; }

# Sets own_python: the Python that brings its own torch, or nothing. One that a complete .venv was
# made from is kept, so that KHA_PYTHON need not be given again.
find_own_python() {
  own_python=${KHA_PYTHON:-}
  if [[ -z "$own_python" && -x "$venv/bin/python" ]]; then
    own_python=$(stamp_line own_python)
  fi
}

base_python() { printf '%s' "${own_python:-python3}"; }

python_has_venv() { "$(base_python)" -c 'import ensurepip, venv' >/dev/null 2>&1; }

python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# torch_version PYTHON: from the metadata, since an import takes seconds.
torch_version() {
  "$1" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null
}

same_base_python() { [[ -z "$own_python" || "$(stamp_line own_python)" == "$own_python" ]]; }

venv_is_ready() {
  [[ -x "$venv/bin/python" && "$(stamp_line requirements)" == "$(requirements_hash)" ]] &&
    same_base_python
}

# Whether the .venv that is there can be brought up to date in place.
venv_is_usable() { same_base_python && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

check_python() {
  local python version
  python=$(base_python)
  version=$(python_version "$python") ||
    stop "there is no Python to run at '$python'. No .venv was made." \
      "Put python3 (3.11 or newer) on PATH, or give one that has its own torch with KHA_PYTHON."
  local minor=${version#*.}
  ((${version%%.*} == 3 && minor >= 11)) ||
    stop "Python 3.11 or newer is needed; '$python' is $version. No .venv was made." \
      "Put a newer python3 first on PATH, or give one that has its own torch with KHA_PYTHON."
  python_has_venv ||
    stop "'$python' has no venv or ensurepip module. No .venv was made." \
      "Install its venv package (Debian: python3-venv)."
}

check_own_torch() {
  [[ -n "$own_python" ]] || return 0
  local version
  version=$(torch_version "$own_python") ||
    stop "the Python of KHA_PYTHON, $own_python, has no torch. No .venv was made." \
      "Install torch 2.11 or newer in it, or leave KHA_PYTHON out to get the pinned one."
  [[ "$(printf '%s\n' 2.11 "$version" | sort -V | head -n 1)" == 2.11 ]] ||
    stop "the torch of $own_python is $version; 2.11 or newer is needed. No .venv was made." \
      "Install a newer torch in it, or leave KHA_PYTHON out to get the pinned one."
}

check_disk() {
  local needed=$venv_gigabytes free
  [[ -z "$own_python" ]] || needed=$own_torch_gigabytes
  free=$(($(df --output=avail -B 1M . | tail -n 1) / 1024))
  ((free >= needed)) ||
    stop "too little disk for .venv: $needed GB are needed, $free GB are free. No .venv was made." \
      "Make room, or give a Python that has its own torch with KHA_PYTHON=/path/to/python."
}

check_venv_can_be_made() {
  venv_is_usable && return
  check_disk
  # A Python that is missing here comes with the packages; it is checked when it is there.
  [[ -z "$own_python" && " ${missing[*]} " == *" python3-venv "* ]] && return
  check_python
  check_own_torch
}

# pip's failure as one sentence from its log, with the log's last lines where no cause is known.
explain_pip() {
  local unreachable='new connection|timed out|name resolution|not known|unreachable|ProxyError'
  if grep -qiE "$unreachable" "$log"; then
    printf 'no network: pip could not reach the package index'
  elif grep -qi 'no space left' "$log"; then
    printf 'the disk is full: pip could not unpack the requirements'
  elif grep -qi 'no matching distribution' "$log"; then
    printf 'a pinned package is not to be had for Python %s' "$(python_version "$(base_python)")"
  else
    printf 'pip could not install the requirements; its last lines are\n'
    tail -n 5 "$log"
  fi
}

# Prints the requirements, without torch where the base Python brings its own.
requirements() { grep -vE "^(#|$)${own_python:+|^torch==}" requirements.txt; }

# The names of a Python's packages as pip compares them: lower case, one hyphen for "-", "_" and ".".
package_names() {
  "$1" -c 'import re
from importlib.metadata import distributions
for package in distributions():
    if package.name: print(re.sub("[-_.]+", "-", package.name).lower())'
}

# Prints the lock without what the base Python brings with its own torch: a pinned torch, or a
# pinned library of its CUDA, would be put in front of that.
constraints() {
  if [[ -z "$own_python" ]]; then
    cat requirements.lock
    return
  fi
  local own
  own=$(package_names "$own_python") ||
    stop "The packages of $own_python cannot be listed." \
      "Try: $own_python -m pip list. Mend what it says, or leave KHA_PYTHON out."
  awk -F == 'NR == FNR {own[$1]; next}
    {name = tolower($1); gsub(/[-_.]+/, "-", name)}
    !(name in own)' <(echo "$own") requirements.lock
}

pip_install() {
  local wanted shown='^(Collecting [^ ]+$|Downloading|Installing)'
  mapfile -t wanted < <(requirements)
  mkdir -p "$(dirname "$log")"
  constraints >"$constraints"
  "$venv/bin/python" -m pip install -c "$constraints" "${wanted[@]}" 2>&1 | tee "$log" |
    { grep -E --line-buffered "$shown" || true; } | cut -c 1-100
}

make_bare_venv() {
  if [[ -z "$own_python" ]]; then
    python3 -m venv "$venv"
    return
  fi
  # Made from another virtual environment, it would see the packages below that one and not that
  # one's own: name its folders instead.
  local folders site
  folders=$("$own_python" -c 'import site, sys
if sys.prefix != sys.base_prefix: print("\n".join(site.getsitepackages()))')
  if [[ -z "$folders" ]]; then
    "$own_python" -m venv --system-site-packages "$venv"
    return
  fi
  "$own_python" -m venv "$venv"
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$folders" >"$site/kha-base.pth"
}

# A requirement that refuses the torch of the base Python makes pip put another in front of it.
check_torch_is_kept() {
  [[ -n "$own_python" ]] || return 0
  local wanted found
  wanted=$(torch_version "$own_python")
  found=$(torch_version "$venv/bin/python") || found=
  [[ -n "$found" ]] ||
    stop "$venv does not see torch $wanted of $own_python." \
      "A torch that is installed by a link (pip install -e, a develop build) is seen by its own Python alone." \
      "Install its wheel there, delete $venv and call again."
  [[ "$found" == "$wanted" ]] ||
    stop "pip put torch $found in front of torch $wanted of $own_python." \
      "A requirement does not take torch $wanted; pip's output is in $log." \
      "Delete $venv. Give a Python with a torch that they take, or leave KHA_PYTHON out to get the pinned one."
}

write_stamp() {
  local torch
  torch=$(torch_version "$venv/bin/python")
  printf 'requirements=%s\nown_python=%s\nwhat=%s\n' "$(requirements_hash)" "$own_python" \
    "Python $(python_version "$venv/bin/python"), torch $torch" >"$stamp"
}

# Runs when making .venv stops halfway, by an error or a signal.
put_back_venv() {
  rm -rf "$venv"
  [[ ! -e "$kept" ]] || mv "$kept" "$venv"
}

begin_new_venv() {
  check_python
  say "setup: making .venv (some minutes, 5 GB where torch comes with it)"
  rm -rf "$kept"
  mkdir -p "$(dirname "$kept")"
  [[ ! -e "$venv" ]] || mv "$venv" "$kept"
  trap put_back_venv EXIT
  make_bare_venv
}

# A new .venv that fails is removed again. One that was there is brought up to date in place; pip
# changes nothing in it before everything is downloaded.
make_venv() {
  if venv_is_usable; then
    say "setup: bringing .venv up to date with requirements.txt"
  else
    begin_new_venv
  fi
  if ! pip_install; then
    mapfile -t why < <(explain_pip)
    stop "${why[@]}" "No half-made .venv is left. pip's output is in $log." \
      "Mend that and call again."
  fi
  check_torch_is_kept
  write_stamp
  trap - EXIT
  rm -rf "$kept"
}
