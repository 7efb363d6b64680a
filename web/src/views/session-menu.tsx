/** The menu with the actions of a session. */

import {
  Archive,
  Bell,
  BellOff,
  Circle,
  Copy,
  Download,
  FoldVertical,
  GitFork,
  Laptop,
  Pencil,
  Pin,
  PinOff,
  Play,
  Search,
  Trash2,
  UnfoldVertical,
} from 'lucide-preact';
import { useLocation } from 'wouter-preact';
import type { Session, SessionChange, SessionSetting } from '../api/types.ts';
import * as actions from '../state/actions.ts';
import { getOwn } from '../state/get-own.ts';
import { forkPoint, type SessionDialogKind, searchedSessionId, sessionDialog } from '../state/jump.ts';
import { getFolds, updateReading } from '../state/reading.ts';
import { isArchived, sessionTitle } from '../state/sessions.ts';
import { getConversation, state } from '../state/store.ts';
import { copyToClipboard } from '../ui/clipboard.ts';
import { openDialog } from '../ui/dialog.tsx';
import { MenuButton, type MenuItem } from '../ui/menu.tsx';
import { tryOrToast } from '../ui/toasts.tsx';
import { resumeAndShow } from './resume.ts';

/** The hub's limit, in characters. */
const MAX_NAME_LENGTH = 255;

export function SessionMenu({ session }: { session: Session }) {
  const [, navigate] = useLocation();
  const { id, active, metadata } = session;
  const whyObsolete = () => (getOwn(state.value.sessions, id) ? undefined : 'This session was deleted.');
  const rename = () =>
    openDialog({
      title: 'Rename session',
      field: { label: 'Name', value: sessionTitle(session), maxLength: MAX_NAME_LENGTH },
      action: 'Rename',
      whyObsolete,
      onConfirm: (name) => actions.rename(id, name),
    });
  const change = (verb: string, settings: SessionChange) => () =>
    void tryOrToast(`Could not ${verb} the session`, () => actions.changeSession(id, settings));
  const show = (kind: SessionDialogKind) => () => {
    sessionDialog.value = { sessionId: id, kind };
  };
  const archive = () =>
    openDialog({
      title: 'Archive this session?',
      text: active ? 'This ends its process on the machine. You can resume it from the archive.' : 'You can resume it from the archive.',
      action: 'Archive',
      whyObsolete,
      onConfirm: () => actions.archive(id),
    });
  const remove = () =>
    openDialog({
      title: 'Delete this session?',
      text: 'This deletes all its messages from the hub. Files on the machine are kept.',
      action: 'Delete',
      isDangerous: true,
      whyObsolete,
      onConfirm: async () => {
        await actions.deleteSession(id);
        navigate('/');
      },
    });
  const search = () => {
    navigate(`/sessions/${id}`);
    searchedSessionId.value = id;
  };
  const fork = () => {
    const newestSeq = Math.max(session.seq, getConversation(id).messages.at(-1)?.seq ?? 0);
    forkPoint.value = { sessionId: id, seq: newestSeq + 1, text: '' };
  };
  const areFolded = getFolds(id).isFolded;
  const foldAll = (isFolded: boolean) => updateReading(id, { folds: { isFolded, exceptions: [] } });
  const settings: Record<SessionSetting, MenuItem> = {
    pinned: session.pinned
      ? { label: 'Unpin', icon: <PinOff size={18} />, onSelect: change('unpin', { pinned: false }) }
      : { label: 'Pin to the top', icon: <Pin size={18} />, onSelect: change('pin', { pinned: true }) },
    muted: session.muted
      ? { label: 'Unmute notifications', icon: <Bell size={18} />, onSelect: change('unmute', { muted: false }) }
      : { label: 'Mute notifications', icon: <BellOff size={18} />, onSelect: change('mute', { muted: true }) },
    color: { label: 'Colour', icon: <Circle size={18} />, onSelect: show('color') },
  };
  return (
    <MenuButton
      label="Session actions"
      items={[
        { label: 'Rename', icon: <Pencil size={18} />, onSelect: rename },
        ...Object.values(settings),
        ...(active ? [] : [{ label: 'Resume', icon: <Play size={18} />, onSelect: () => void resumeAndShow(session, navigate) }]),
        ...(isArchived(session) ? [] : [{ label: 'Archive', icon: <Archive size={18} />, onSelect: archive }]),
        { label: 'Search', icon: <Search size={18} />, onSelect: search },
        areFolded
          ? { label: 'Open all turns', icon: <UnfoldVertical size={18} />, onSelect: () => foldAll(false) }
          : { label: 'Fold earlier turns', icon: <FoldVertical size={18} />, onSelect: () => foldAll(true) },
        { label: 'Export', icon: <Download size={18} />, onSelect: show('export') },
        { label: 'Fork', icon: <GitFork size={18} />, onSelect: fork },
        ...(metadata?.terminalCommand === undefined
          ? []
          : [{ label: 'Continue in the terminal', icon: <Laptop size={18} />, onSelect: show('terminal') }]),
        { label: 'Copy ID', icon: <Copy size={18} />, onSelect: () => void copyToClipboard(id) },
        ...(active ? [] : [{ label: 'Delete', icon: <Trash2 size={18} />, isDangerous: true, onSelect: remove }]),
      ]}
    />
  );
}
