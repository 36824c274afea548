#!/usr/bin/env bash
# Publishes a change of an order over HTTP with curl.
#
#   over_http.sh merge ORDER ID <DATA     what this source knows of the order: a JSON object
#   over_http.sh remove ORDER ID          removes the order
#
# ORDER   <order type>/<order>
# ID      the change's name in your system, such as the key of its row: sent again under this name, it has one effect
#
# CHECKOUT_URL, in the environment, is the address of `waybill-gateway checkout`; CHECKOUT_KEY_FILE a file with a key of
# the scope `orders`, which also names the source. Prints the answer. Needs curl 7.55.
set -euo pipefail
fail() { printf 'over_http: %s\n' "$*" >&2; exit 1; }
[ $# -eq 3 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
url="${CHECKOUT_URL:?}/v1/checkout/orders/$2" id="$3" body=""
case "$1" in
merge)
    request=(--request POST --header 'Content-Type: application/json' --data-binary @-)
    url+=/merge body="$(cat)"
    ;;
remove) request=(--request DELETE) ;;
*) fail "$1: merge or remove" ;;
esac
key="$(<"${CHECKOUT_KEY_FILE:?}")"

# The request without an answer (000), or with one that may pass, is sent again with the same key, so it has one effect.
for pause in 1 2 4 8 16 ''; do
    # The secret key comes from a pipe, since a command line can be seen by others. printf is a part of bash.
    answer="$(printf '%s' "$body" | curl --silent --show-error --max-time 30 --write-out '\n%{http_code}' \
        --header @<(printf 'Authorization: Bearer %s\n' "$key") --header "Idempotency-Key: $id" \
        "${request[@]}" "$url")" || answer=$'\n000'
    case "${answer##*$'\n'}:$answer" in
    202:*) printf '%s\n' "${answer%$'\n'*}"; exit 0 ;;
    000:* | 429:* | 500:* | 502:* | 503:* | 504:* | 409:*'"in_progress"'*) ;;
    *) fail "refused: ${answer##*$'\n'} ${answer%$'\n'*}" ;;
    esac
    [ -z "$pause" ] || sleep "$pause"
done
fail "not published, publish it again under the same ID: ${answer##*$'\n'} ${answer%$'\n'*}"
