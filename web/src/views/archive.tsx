export function Archive(_: object) { return null; }
