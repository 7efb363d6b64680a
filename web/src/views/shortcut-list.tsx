/** The list of the keyboard shortcuts: in the settings, and in a dialog. */

import './shortcut-list.css';
import { useLayoutEffect, useRef } from 'preact/hooks';

const SHORTCUTS = [
  { keys: ['a'], meaning: 'Approve the request, or show more of it' },
  { keys: ['d'], meaning: 'Deny the request' },
  { keys: ['.'], meaning: 'More answers' },
  { keys: ['j', 'k'], meaning: 'Next and previous item of the inbox, request, or session' },
  { keys: ['i'], meaning: 'Open the inbox' },
  { keys: ['/'], meaning: 'Search sessions' },
  { keys: ['n'], meaning: 'Start a session' },
  { keys: ['c'], meaning: 'Write a message' },
  { keys: ['1', '2', '3'], meaning: 'Chat, changes, files' },
  { keys: ['Ctrl+F'], meaning: 'Search in the session' },
  { keys: ['?'], meaning: 'Show this list' },
];

export function ShortcutList() {
  return (
    <dl class="keys">
      {SHORTCUTS.map(({ keys, meaning }) => (
        <div key={meaning}>
          <dt>
            {keys.map((key) => (
              <kbd key={key}>{key}</kbd>
            ))}
          </dt>
          <dd>{meaning}</dd>
        </div>
      ))}
    </dl>
  );
}

export function ShortcutHelp({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog class="dialog" ref={dialog} aria-labelledby="shortcuts-title" onClose={onClose}>
      <form method="dialog">
        <h2 id="shortcuts-title">Keyboard shortcuts</h2>
        <ShortcutList />
        <div class="actions">
          <button type="submit" class="button">
            Close
          </button>
        </div>
      </form>
    </dialog>
  );
}
