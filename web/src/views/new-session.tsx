export function NewSession(_: object) { return null; }
