-- An outbox in PostgreSQL 13 or later: changes of orders that are published exactly if their transaction commits.
-- Debezium reads it from the log of the database, with outbox.json.
CREATE TABLE waybill_outbox (
    id uuid PRIMARY KEY,
    order_key text NOT NULL,
    content_type text NOT NULL,
    event jsonb NOT NULL
);

-- Call it in the transaction that changes the order: SELECT publish_change('/shop/orders', 'waybill.order.merged',
-- 'order.com.example.shop/1001', '{"owns": …}'). A removal has no data.
CREATE FUNCTION publish_change(source text, type text, order_key text, data jsonb DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    event_id uuid := gen_random_uuid();
BEGIN
    INSERT INTO waybill_outbox VALUES (event_id, order_key, 'application/cloudevents+json', jsonb_build_object(
        'specversion', '1.0', 'id', event_id, 'source', source, 'type', type, 'subject', order_key,
        'time', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'data', data));
    -- The log keeps the insertion, and the table stays empty.
    DELETE FROM waybill_outbox WHERE id = event_id;
    RETURN event_id;
END
$$;
