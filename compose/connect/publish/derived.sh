#!/usr/bin/env bash
# Derives an order's token, or a link to its package, with nothing but bash and coreutils.
#
#   derived.sh token ORDER            the authenticationToken that checkout hands to Wallet
#   derived.sh link ORDER EXPIRES     a "Track with Apple Wallet" link; EXPIRES in UNIX seconds, at most a day ahead
#
# ORDER   <order type>/<order>
#
# TOKEN_SECRETS, in the environment, is the file of secrets, whose first one derives; WEB_SERVICE_URL the gateway's
# address, as it is in orders.
set -euo pipefail
fail() { printf 'derived: %s\n' "$*" >&2; exit 1; }
case "${1:-} $#" in
'token 2' | 'link 3') order="$2" expires="${3:-0}" ;;
*) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
[[ "$expires" =~ ^[0-9]+$ ]] || fail "$expires: UNIX seconds"

# Reads the first line that is not empty, and prints its bytes as hexadecimal digits.
secret() {
    local line LC_ALL=C
    while IFS= read -r line || [ -n "$line" ]; do
        line="${line%$'\r'}"
        [ -z "$line" ] || { printf '%s' "$line" | od -An -v -tx1 | tr -d ' \n'; return; }
    done
}
# DIGITS: prints the bytes that hexadecimal digits stand for.
bytes() {
    local i escaped=""
    for ((i = 0; i < ${#1}; i += 2)); do escaped+="\\x${1:i:2}"; done
    printf '%b' "$escaped"
}
digest() { sha256sum | cut -c 1-64; }
# BYTE: prints the key, each of its 64 bytes combined with this one.
pad() {
    local i digits="" byte
    for ((i = 0; i < 128; i += 2)); do
        byte="${key:i:2}"
        printf -v byte '%02x' $((16#${byte:-0} ^ $1))
        digits+="$byte"
    done
    bytes "$digits"
}
# MESSAGE: prints its HMAC-SHA256 (RFC 2104). `openssl dgst -hmac` takes the secret as an argument, which others can see
# in the list of processes; here it is in arguments of printf alone, which is a part of bash.
authenticate() {
    local inner
    inner="$({ pad 0x36; printf '%s' "$1"; } | digest)"
    { pad 0x5c; bytes "$inner"; } | digest
}

key="$(secret <"${TOKEN_SECRETS:?}")"
[ -n "$key" ] || fail 'there is no secret in the file'
# A key that is longer than a block of SHA-256 is replaced by its digest.
[ ${#key} -le 128 ] || key="$(bytes "$key" | digest)"
if [ "$1" = token ]; then
    token="$(authenticate "$order")"
    printf '%s\n' "${token:0:32}"
else
    printf '%s/v1/orders/%s/package?expires=%s&signature=%s\n' \
        "${WEB_SERVICE_URL:?}" "$order" "$expires" "$(authenticate "link:$order:$expires")"
fi
