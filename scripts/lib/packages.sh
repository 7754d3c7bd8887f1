# System packages: one table, asked of dpkg on Debian and its children, of the compiler elsewhere.

# Debian name | what it is for | what shows that it is there on another Linux
packages='
make|runs the targets|command make
git|the version written into runs|command git
g++|C++20 compiler, GCC 12 or newer|command g++
cmake|configures the build, 3.25 or newer|command cmake
ninja-build|runs the build|command ninja
python3-venv|Python 3.11 or newer that can make a virtual environment|python
nlohmann-json3-dev|reads and writes JSON|header nlohmann/json.hpp
libtomlplusplus-dev|reads TOML|header toml++/toml.h
libcli11-dev|command lines|header CLI/CLI.hpp
libfmt-dev|formatting|header fmt/format.h
libxxhash-dev|checksums|header xxhash.h
libpcre2-dev|splits text for tokenizers|command pcre2-config
libutf8proc-dev|Unicode normalisation|header utf8proc.h
zlib1g-dev|reads .gz|header zlib.h
libzstd-dev|reads .zst|header zstd.h
libeigen3-dev|small linear algebra|header eigen3/Eigen/Core
libgtest-dev|C++ tests|header gtest/gtest.h
libgmock-dev|C++ tests|header gmock/gmock.h
binutils|tests read object code|command objdump
valgrind|tests count instructions|command valgrind
'

installed_by_dpkg() {
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

found_by_probe() {
  case "$1" in
    command) command -v "$2" >/dev/null ;;
    header) g++ -E -x c++ -include "$2" /dev/null >/dev/null 2>&1 ;;
    python) [[ -n "$own_python" ]] || python_has_venv ;;
  esac
}

# A Python that is not Debian's needs no python3-venv, so that one is always asked of Python itself.
is_there() {
  local name=$1 kind=$2 argument=$3
  if [[ "$kind" != python ]] && command -v dpkg-query >/dev/null; then
    installed_by_dpkg "$name"
  else
    found_by_probe "$kind" "$argument"
  fi
}

# Fills `missing` with Debian names and `missing_lines` with names and purposes.
find_missing_packages() {
  missing=()
  missing_lines=()
  local name purpose probe kind argument
  while IFS='|' read -r name purpose probe; do
    [[ -n "$name" ]] || continue
    read -r kind argument <<<"$probe"
    if ! is_there "$name" "$kind" "$argument" </dev/null; then
      missing+=("$name")
      missing_lines+=("$(printf '%-20s %s' "$name" "$purpose")")
    fi
  done <<<"$packages"
}

# Prints how to become root, nothing where that is not needed; fails where it is not possible.
root_command() {
  if [[ "$(id -u)" == 0 ]]; then
    return 0
  fi
  command -v sudo >/dev/null || return 1
  if [[ -t 0 ]]; then printf 'sudo'; else printf 'sudo -n'; fi
}

check_packages_can_be_installed() {
  local reason=""
  if ! command -v apt-get >/dev/null; then
    reason="there is no apt-get here"
  elif ! root_command >/dev/null; then
    reason="that needs root or sudo"
  fi
  [[ -n "$reason" ]] || return 0
  stop "packages are missing and cannot be installed: $reason. Nothing was changed." \
    "Install these (Debian names) and call again:" "${missing_lines[@]}"
}

install_packages() {
  say "setup: installing ${missing[*]}"
  mkdir -p "$(dirname "$log")"
  local as_root
  read -r -a as_root <<<"$(root_command)"
  # A list that cannot be refreshed may still do; the installation decides.
  "${as_root[@]}" apt-get update -qq >"$log" 2>&1 || true
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -qq -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    mapfile -t last < <(tail -n 5 "$log")
    stop "apt-get could not install the packages that are missing." \
      "Likely no network, or not enough rights; apt-get's last lines, of $log:" "${last[@]}" \
      "Mend that, or install these by hand, and call again:" "${missing_lines[@]}"
  fi
}
