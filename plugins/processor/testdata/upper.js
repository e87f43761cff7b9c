function process(rec) {
  rec.Payload.After.name = rec.Payload.After.name.toUpperCase();
  return rec;
}
