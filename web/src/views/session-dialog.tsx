/** The dialogs of a session. */

import { useState } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import * as actions from '../state/actions.ts';
import { type SessionDialogKind, sessionDialog } from '../state/jump.ts';
import { COLORS } from '../state/sessions.ts';
import { DialogForm } from '../ui/dialog-form.tsx';
import { ExportDialog } from './export-dialog.tsx';
import { ColorDot } from './session-row.tsx';
import { TerminalDialog } from './terminal-dialog.tsx';

function ColorDialog({ session }: { session: Session }) {
  const [color, setColor] = useState(session.color ?? '');
  const onClose = () => {
    sessionDialog.value = null;
  };
  // Another client may have set a colour that is not in the list.
  const choices = new Set(['', ...Object.keys(COLORS), session.color ?? '']);
  return (
    <DialogForm
      title="Colour of the session"
      action="Save"
      onSubmit={() => actions.changeSession(session.id, { color: color || null })}
      onClose={onClose}
    >
      <fieldset class="choices">
        <legend class="visually-hidden">Colour</legend>
        {[...choices].map((value) => (
          <label key={value} class="choice">
            <input type="radio" name="color" value={value} checked={color === value} onChange={() => setColor(value)} />
            <span class="ellipsis">
              <ColorDot color={value} />
              {value || 'None'}
            </span>
          </label>
        ))}
      </fieldset>
    </DialogForm>
  );
}

const DIALOGS = { color: ColorDialog, export: ExportDialog, terminal: TerminalDialog };

export function SessionDialog({ session, kind }: { session: Session; kind: SessionDialogKind }) {
  const Dialog = DIALOGS[kind];
  return <Dialog session={session} />;
}
