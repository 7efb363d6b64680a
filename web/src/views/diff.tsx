import type { Edit } from '../content/tools.ts';
export function Edits(_: { edits: Edit[] }) { return null; }
