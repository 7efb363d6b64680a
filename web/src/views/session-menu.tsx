/** What else can be done with a session. */

import { Archive, Copy, Pencil, Play, Trash2 } from 'lucide-preact';
import { useLocation } from 'wouter-preact';
import type { Session } from '../api/types.ts';
import * as actions from '../state/actions.ts';
import { isArchived, titleOf } from '../state/sessions.ts';
import { copy } from '../ui/copy.ts';
import { ask } from '../ui/dialog.tsx';
import { Menu } from '../ui/menu.tsx';
import { attempt } from '../ui/toasts.tsx';

/** The longest name that the hub takes. */
const MAX_NAME = 255;

/** Starts a session's process again, and shows the session, which may have another id now. */
export async function resumeAndShow(id: string, navigate: (to: string) => void): Promise<boolean> {
  return attempt('Not resumed', async () => {
    const resumed = await actions.resume(id);
    if (resumed !== id) navigate(`/sessions/${resumed}`);
  });
}

/** The menu. */
export function SessionMenu({ session }: { session: Session }) {
  const [, navigate] = useLocation();
  const { id, active } = session;
  const rename = () =>
    ask({
      title: 'Rename the session',
      field: { label: 'Name', value: titleOf(session), maxLength: MAX_NAME },
      action: 'Rename',
      onConfirm: (name) => actions.rename(id, name),
    });
  const archive = () =>
    ask({
      title: 'Archive the session?',
      text: active ? 'Its process on the machine ends. You can resume it from the archive.' : 'You can resume it from the archive.',
      action: 'Archive',
      onConfirm: () => actions.archive(id),
    });
  const remove = () =>
    ask({
      title: 'Delete the session?',
      text: 'All of its messages are deleted from the hub. Files on the machine stay as they are.',
      action: 'Delete',
      isDangerous: true,
      onConfirm: async () => {
        await actions.remove(id);
        navigate('/');
      },
    });
  return (
    <Menu
      label="More for this session"
      items={[
        { label: 'Rename', icon: <Pencil size={18} aria-hidden />, onSelect: rename },
        ...(active ? [] : [{ label: 'Resume', icon: <Play size={18} aria-hidden />, onSelect: () => void resumeAndShow(id, navigate) }]),
        ...(isArchived(session) ? [] : [{ label: 'Archive', icon: <Archive size={18} aria-hidden />, onSelect: archive }]),
        { label: 'Copy the id', icon: <Copy size={18} aria-hidden />, onSelect: () => void copy(id) },
        ...(active ? [] : [{ label: 'Delete', icon: <Trash2 size={18} aria-hidden />, isDangerous: true, onSelect: remove }]),
      ]}
    />
  );
}
