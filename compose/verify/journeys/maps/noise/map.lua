-- A source in trouble: its program ignores a record, fails, or does not end.
function map(event)
    if event.kind == "fail" then error("as it is told") end
    while event.kind == "loop" do end
end
