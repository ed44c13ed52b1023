"""Shell functions that read a board's sensors: for the script that reads them once, and for the sampler."""

from __future__ import annotations

# Both scripts list the sensors by the same patterns in the same order: a sample contains only values, and the
# state read before it has their labels. Names in /sys contain no blanks, so lists of them are split into
# words. The shell itself reads the files, without another process. Each function returns its result in
# `value`; `number`, `power` and `throttled` return a number, or "-" if unknown.
SENSORS = r"""
exec 2>/dev/null
LC_ALL=C
sys=$1 proc=$2 vcgencmd=$3
cd "$sys" || cd /
command -v "$vcgencmd" >/dev/null || vcgencmd=

first() {
  value=
  [ -r "$1" ] && IFS= read -r value <"$1"
}
number() {
  first "$1"
  case ${value#-} in '' | 0?* | *[!0-9]*) value=- ;; esac
}
present() {
  value=
  for file; do [ -e "$file" ] && value="$value $file"; done
}
power() {
  number "$1"
  case $1:$value in
  *:- | */power*) ;;
  */in_power*) value=$((1000 * value)) ;;
  *)
    current=$value
    number "${1%/*}/in${1##*/curr}"
    [ "$value" = - ] || value=$((current * value))
    ;;
  esac
}
throttled() {
  value=
  [ -n "$vcgencmd" ] && value=$("$vcgencmd" get_throttled)
  value=${value#throttled=0x}
  case $value in '' | *[!0-9a-fA-F]*) value=- ;; *) value=0x$value ;; esac
}

present devices/system/cpu/cpu[0-9]*; cores=$value
present class/thermal/thermal_zone[0-9]*; zones=$value
present class/thermal/cooling_device[0-9]*; coolers=$value
present class/hwmon/hwmon[0-9]*/oc[0-9]*_event_cnt; events=$value
rails=
for chip in class/hwmon/hwmon[0-9]*; do
  first "$chip/name"
  case $value in ina2* | ina3*) ;; *) continue ;; esac
  present "$chip"/power[0-9]*_input
  [ -n "$value" ] || present "$chip"/curr[1-3]_input
  rails="$rails $value"
done
# NVIDIA's own driver up to JetPack 4, in milliwatts.
present bus/i2c/drivers/ina3221x/*/iio:device[0-9]*/in_power[0-9]*_input
rails="$rails$value"
"""
