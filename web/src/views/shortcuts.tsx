/** Keys that work everywhere but where something is written. */

import './shortcuts.css';
import { useEffect } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import { grouped, isArchived } from '../state/sessions.ts';
import { openSession, state } from '../state/store.ts';
import { isField } from '../ui/device.ts';

/** The keys, for a person to read. */
export const KEYS = [
  { keys: '/', meaning: 'Search the sessions' },
  { keys: 'n', meaning: 'Start a session' },
  { keys: 'j', meaning: 'Next session' },
  { keys: 'k', meaning: 'Session before' },
  { keys: 'c', meaning: 'Write to the agent' },
  { keys: '1 2 3', meaning: 'Chat, changes, files of the session' },
  { keys: '?', meaning: 'This list' },
];

/** Listens for the keys. */
export function Shortcuts() {
  const [, navigate] = useLocation();
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (isField(event.target) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
      if (act(event.key, navigate)) event.preventDefault();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, [navigate]);
  return null;
}

/** Does what a key stands for, and says whether it stands for anything. */
function act(key: string, navigate: (to: string) => void): boolean {
  const here = openSession.value;
  const tabs: Record<string, string> = { 1: '', 2: '/changes', 3: '/files' };
  const tab = tabs[key];
  const neighbour = key === 'j' ? sessionBeside(1) : key === 'k' ? sessionBeside(-1) : undefined;
  if (key === '/') return focus('search');
  if (key === 'c') return focus('composer');
  if (key === 'n') navigate('/new');
  else if (key === '?') navigate('/settings');
  else if (neighbour !== undefined) navigate(`/sessions/${neighbour}`);
  else if (tab !== undefined && here !== null) navigate(`/sessions/${here}${tab}`);
  else return false;
  return true;
}

function focus(id: string): boolean {
  const field = document.getElementById(id);
  field?.focus();
  return field !== null;
}

/** The session that stands so many lines below the open one; undefined when there is none in the list. */
function sessionBeside(step: number): string | undefined {
  const shown = grouped(Object.values(state.value.summaries).filter((one) => !isArchived(one))).flatMap(({ sessions }) => sessions);
  const at = shown.findIndex(({ id }) => id === openSession.value);
  return shown[Math.max(0, Math.min(shown.length - 1, at + step))]?.id;
}
