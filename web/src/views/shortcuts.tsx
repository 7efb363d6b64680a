/** Keyboard shortcuts, which work everywhere except in text fields and dialogs. */

import { signal } from '@preact/signals';
import { Suspense } from 'preact/compat';
import { useEffect } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import { groupSessions, isArchived, sortSessions } from '../state/sessions.ts';
import { openSessionId, state } from '../state/store.ts';
import { lazy } from './lazy.tsx';
import { isPlainKeyPress } from './request-keys.ts';
import { shownSessions } from './session-list.tsx';

const ShortcutHelp = lazy(() => import('./shortcut-list.tsx').then(({ ShortcutHelp }) => ShortcutHelp));

const isHelpOpen = signal(false);

/** Handles the shortcuts. Renders only the dialog that lists the shortcuts, if it is open. */
export function Shortcuts() {
  const [, navigate] = useLocation();
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (isPlainKeyPress(event) && runShortcut(event.key, navigate)) event.preventDefault();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, [navigate]);
  return isHelpOpen.value ? (
    <Suspense fallback={null}>
      <ShortcutHelp
        onClose={() => {
          isHelpOpen.value = false;
        }}
      />
    </Suspense>
  ) : null;
}

/** Runs the shortcut of a key. Returns false if the key has no shortcut. */
function runShortcut(key: string, navigate: (to: string) => void): boolean {
  const openId = openSessionId.value;
  const tabs: Record<string, string> = { 1: '', 2: '/changes', 3: '/files' };
  const tab = tabs[key];
  const sibling = key === 'j' ? sessionAtOffset(1) : key === 'k' ? sessionAtOffset(-1) : undefined;
  if (key === '/') return focusElement('search');
  if (key === 'c') return openComposer();
  if (key === 'n') navigate('/new');
  else if (key === 'i') navigate('/inbox');
  else if (key === '?') isHelpOpen.value = true;
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

/** Focuses the composer. While a request is pending, a button that unfolds the composer is in its place. */
function openComposer(): boolean {
  const composer = document.getElementById('composer');
  if (composer instanceof HTMLButtonElement) composer.click();
  return focusElement('composer');
}

/** Returns the id of the session `step` rows below the open session, at the ends of the list that of the first or last one, if there is one. */
function sessionAtOffset(step: number): string | undefined {
  const unfiltered = () => sortSessions(Object.values(state.value.summaries).filter((session) => !isArchived(session)));
  const listed = shownSessions ?? groupSessions(unfiltered()).flatMap(({ sessions }) => sessions);
  const index = listed.findIndex(({ id }) => id === openSessionId.value);
  return listed[Math.max(0, Math.min(listed.length - 1, index + step))]?.id;
}
