/** The menu with the actions of a session. */

import { Archive, Copy, Pencil, Pin, PinOff, Play, Trash2 } from 'lucide-preact';
import { useLocation } from 'wouter-preact';
import type { Session } from '../api/types.ts';
import * as actions from '../state/actions.ts';
import { isArchived, sessionTitle } from '../state/sessions.ts';
import { copyToClipboard } from '../ui/clipboard.ts';
import { openDialog } from '../ui/dialog.tsx';
import { MenuButton } from '../ui/menu.tsx';
import { tryOrToast } from '../ui/toasts.tsx';

/** The hub's limit, in characters. */
const MAX_NAME_LENGTH = 255;

/** Resumes a session, and navigates to the session's new id if the hub has changed the id. */
export async function resumeAndShow(id: string, navigate: (to: string) => void): Promise<boolean> {
  return tryOrToast('Could not resume the session', async () => {
    const resumedId = await actions.resume(id);
    if (resumedId !== id) navigate(`/sessions/${resumedId}`);
  });
}

export function SessionMenu({ session }: { session: Session }) {
  const [, navigate] = useLocation();
  const { id, active } = session;
  const rename = () =>
    openDialog({
      title: 'Rename session',
      field: { label: 'Name', value: sessionTitle(session), maxLength: MAX_NAME_LENGTH },
      action: 'Rename',
      onConfirm: (name) => actions.rename(id, name),
    });
  const pin = () =>
    void tryOrToast(session.pinned ? 'Could not unpin the session' : 'Could not pin the session', () =>
      actions.setPinned(id, !session.pinned),
    );
  const archive = () =>
    openDialog({
      title: 'Archive this session?',
      text: active ? 'This ends its process on the machine. You can resume it from the archive.' : 'You can resume it from the archive.',
      action: 'Archive',
      onConfirm: () => actions.archive(id),
    });
  const remove = () =>
    openDialog({
      title: 'Delete this session?',
      text: 'This deletes all its messages from the hub. Files on the machine are kept.',
      action: 'Delete',
      isDangerous: true,
      onConfirm: async () => {
        await actions.deleteSession(id);
        navigate('/');
      },
    });
  return (
    <MenuButton
      label="Session actions"
      items={[
        { label: 'Rename', icon: <Pencil size={18} aria-hidden />, onSelect: rename },
        session.pinned
          ? { label: 'Unpin', icon: <PinOff size={18} aria-hidden />, onSelect: pin }
          : { label: 'Pin to the top', icon: <Pin size={18} aria-hidden />, onSelect: pin },
        ...(active ? [] : [{ label: 'Resume', icon: <Play size={18} aria-hidden />, onSelect: () => void resumeAndShow(id, navigate) }]),
        ...(isArchived(session) ? [] : [{ label: 'Archive', icon: <Archive size={18} aria-hidden />, onSelect: archive }]),
        { label: 'Copy ID', icon: <Copy size={18} aria-hidden />, onSelect: () => void copyToClipboard(id) },
        ...(active ? [] : [{ label: 'Delete', icon: <Trash2 size={18} aria-hidden />, isDangerous: true, onSelect: remove }]),
      ]}
    />
  );
}
