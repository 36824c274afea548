#!/usr/bin/env bash
# Publishes a change of an order to Kafka with kcat, as a CloudEvent in binary mode.
#
#   over_kafka.sh merge ORDER ID <DATA     what this source knows of the order: a JSON object
#   over_kafka.sh remove ORDER ID          removes the order
#
# ORDER   <order type>/<order>: the subject of the event, and the key of its record
# ID      the change's name in your system, such as the key of its row: sent again under this name, it has one effect
#
# SOURCE, in the environment, is the system that publishes; PUBLISHER_PROPERTIES a file with properties of librdkafka,
# one name=value a line: bootstrap.servers, and what the brokers require. Needs kcat 1.7.
set -euo pipefail
fail() { printf 'over_kafka: %s\n' "$*" >&2; exit 1; }
[ $# -eq 3 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
order="$2" id="$3"
case "$1" in
merge) type=waybill.order.merged data="$(cat)" ;;
# kcat sends no record without a value; a removal may have an empty object.
remove) type=waybill.order.removed data='{}' ;;
*) fail "$1: merge or remove" ;;
esac
[ -n "$data" ] || fail 'there is no data'

headers=(
    -H ce_specversion=1.0 -H "ce_type=$type" -H "ce_source=${SOURCE:?}" -H "ce_id=$id" -H "ce_subject=$order"
    -H content-type=application/json
)
# All in-sync replicas have a record before it counts as published, and retries neither repeat nor reorder records. The
# partitioner is that of Java's producers and of Waybill: all changes of an order are in one partition, so in sequence.
# The largest change has 1 MiB, which is more than the default.
guarantees=(
    -X acks=all -X enable.idempotence=true -X partitioner=murmur2_random -X message.max.bytes=2097152
)
# The byte 1e, which JSON cannot contain, ends a record; by default each line is one.
printf '%s' "$data" |
    kcat -q -P -F "${PUBLISHER_PROPERTIES:?}" "${guarantees[@]}" -t waybill.order-changes -k "$order" "${headers[@]}" \
        -D '\x1e' || fail 'not published, publish it again under the same ID'
echo "published: $id"
