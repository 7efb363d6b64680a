/** The dialogs of a session. */

import type { Session } from '../api/types.ts';
import { ExportDialog } from './export-dialog.tsx';
import { TerminalDialog } from './terminal-dialog.tsx';

export function SessionDialog({ session, kind }: { session: Session; kind: 'export' | 'terminal' }) {
  return kind === 'export' ? <ExportDialog session={session} /> : <TerminalDialog session={session} />;
}
