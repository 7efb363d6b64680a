/** Keyboard shortcuts, which work everywhere except in text fields and dialogs. */

import './shortcuts.css';
import { useEffect } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import { groupSessions, isArchived } from '../state/sessions.ts';
import { openSessionId, state } from '../state/store.ts';
import { isEditable } from '../ui/device.ts';

/** The shortcuts, as the settings list them. */
export const SHORTCUTS = [
  { keys: '/', meaning: 'Search sessions' },
  { keys: 'n', meaning: 'Start a session' },
  { keys: 'j', meaning: 'Next session' },
  { keys: 'k', meaning: 'Previous session' },
  { keys: 'c', meaning: 'Write a message' },
  { keys: '1 2 3', meaning: 'Chat, changes, files' },
  { keys: '?', meaning: 'Show this list' },
];

/** Handles the shortcuts. Renders nothing. */
export function Shortcuts() {
  const [, navigate] = useLocation();
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (isEditable(event.target) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
      if (handleKey(event.key, navigate)) event.preventDefault();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, [navigate]);
  return null;
}

/** Runs the shortcut of a key. Returns false if the key has no shortcut. */
function handleKey(key: string, navigate: (to: string) => void): boolean {
  const openId = openSessionId.value;
  const tabs: Record<string, string> = { 1: '', 2: '/changes', 3: '/files' };
  const tab = tabs[key];
  const sibling = key === 'j' ? sessionAtOffset(1) : key === 'k' ? sessionAtOffset(-1) : undefined;
  if (key === '/') return focusElement('search');
  if (key === 'c') return focusElement('composer');
  if (key === 'n') navigate('/new');
  else if (key === '?') navigate('/settings');
  else if (sibling !== undefined) navigate(`/sessions/${sibling}`);
  else if (tab !== undefined && openId !== null) navigate(`/sessions/${openId}${tab}`);
  else return false;
  return true;
}

function focusElement(id: string): boolean {
  const field = document.getElementById(id);
  field?.focus();
  return field !== null;
}

/** Returns the id of the session `step` rows below the open session, or of the first or last session. The list may be empty. */
function sessionAtOffset(step: number): string | undefined {
  const listed = groupSessions(Object.values(state.value.summaries).filter((session) => !isArchived(session))).flatMap(
    ({ sessions }) => sessions,
  );
  const index = listed.findIndex(({ id }) => id === openSessionId.value);
  return listed[Math.max(0, Math.min(listed.length - 1, index + step))]?.id;
}
