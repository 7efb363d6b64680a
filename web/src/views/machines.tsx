export function Machines(_: object) { return null; }
