import type { Session } from '../api/types.ts';
export function Files(_: { session: Session }) { return null; }
