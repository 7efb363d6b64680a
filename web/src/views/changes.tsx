import type { Session } from '../api/types.ts';
export function Changes(_: { session: Session }) { return null; }
