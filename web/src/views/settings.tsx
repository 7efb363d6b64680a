export function Settings(_: object) { return null; }
