/** The composer: writes messages with attachments, and completes commands. */

import './composer.css';
import { Paperclip, SendHorizontal } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import { type Command, matchCommands } from '../content/completions.ts';
import { pastedFiles } from '../content/pasted-files.ts';
import { fetchCommands } from '../state/commands.ts';
import { getMessageDraft, updateMessageDraft } from '../state/drafts.ts';
import { outbox } from '../state/hub-client.ts';
import { connectionState, state } from '../state/store.ts';
import { addFiles, forgetMissingFiles, getUploads, missingFiles, sessionsAwaitingUploads, takeAttachments } from '../state/uploads.ts';
import { hasKeyboard } from '../ui/device.ts';
import { formatCount } from '../ui/format.ts';
import { ComposerSettings } from './composer-settings.tsx';
import { lazy } from './lazy.tsx';

const UploadList = lazy(() => import('./upload-list.tsx').then(({ UploadList }) => UploadList));

/** Returns an error text if a message is longer than the hub's limit; otherwise null. */
function describeExcess(text: string): string | null {
  const limit = state.value.config?.limits.messageBytes ?? Infinity;
  const { length } = new TextEncoder().encode(text);
  if (length <= limit) return null;
  return `The message has ${formatCount(length)} bytes; the limit is ${formatCount(limit)}. Shorten it, or attach the text as a file.`;
}

/** Keeps the focus in the text field while a completion is clicked. */
const keepFocus = (event: Event) => event.preventDefault();

/** `takesFocus`: focuses the text field when the composer appears, because the user has unfolded the composer. */
export function Composer({ session, takesFocus }: { session: Session; takesFocus: boolean }) {
  const { id, active } = session;
  const host = session.metadata?.host || 'the machine';
  const { text } = getMessageDraft(id);
  const [commands, setCommands] = useState<Command[]>([]);
  const [selectedIndex, setSelectedIndex] = useState(0);
  const [isDismissed, setDismissed] = useState(false);
  const [isDraggedOver, setDraggedOver] = useState(false);
  const textField = useRef<HTMLTextAreaElement>(null);
  const fileInput = useRef<HTMLInputElement>(null);
  // In a layout effect: browsers show the on-screen keyboard only for a focus that directly follows a tap.
  useLayoutEffect(() => {
    if (takesFocus) textField.current?.focus();
  }, []);
  const files = getUploads(id);
  const completions = isDismissed ? [] : matchCommands(commands, text);
  const excess = describeExcess(text.trim());
  // A message cannot be sent before all its files are uploaded. Files are uploaded to the session's machine.
  const areFilesReady = active ? files.every(({ status }) => status === 'done') : files.length === 0;
  const isReady = excess === null && (text.trim() !== '' || files.length > 0) && areFilesReady;

  const startsCommand = active && text.startsWith('/');
  useEffect(() => {
    if (startsCommand) void fetchCommands(id).then(setCommands);
  }, [id, startsCommand]);

  const changeText = (changedText: string) => {
    updateMessageDraft(id, { text: changedText });
    setSelectedIndex(0);
    setDismissed(false);
  };
  const send = () => {
    if (!isReady) return;
    // While the page is not connected, the CLI may leave unnoticed.
    const mayWait = !active || connectionState.value !== 'live';
    void outbox.send(id, text.trim(), takeAttachments(id), mayWait);
    changeText('');
    forgetMissingFiles(id);
    textField.current?.focus();
  };
  const complete = (command: Command) => {
    changeText(`/${command.name} `);
    textField.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const selected = completions[selectedIndex];
    if (selected && ((event.key === 'Tab' && !event.shiftKey) || (event.key === 'Enter' && `/${selected.name}` !== text)))
      complete(selected);
    else if (selected && event.key === 'ArrowDown') setSelectedIndex((selectedIndex + 1) % completions.length);
    else if (selected && event.key === 'ArrowUp') setSelectedIndex((selectedIndex - 1 + completions.length) % completions.length);
    else if (selected && event.key === 'Escape') setDismissed(true);
    // With an on-screen keyboard, Enter inserts a line break.
    else if (event.key === 'Enter' && !event.shiftKey && (hasKeyboard.value || event.ctrlKey || event.metaKey)) send();
    else return;
    event.preventDefault();
  };
  const onPaste = (event: ClipboardEvent) => {
    const pasted = pastedFiles(event.clipboardData);
    if (pasted.length === 0 || !active) return;
    event.preventDefault();
    addFiles(id, pasted);
  };
  /** Files are attached. The browser itself inserts dragged text. */
  const onDrag = (event: DragEvent) => {
    const isDrop = event.type === 'drop';
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    setDraggedOver(active && !isDrop);
    if (active && isDrop) addFiles(id, event.dataTransfer.files);
  };

  return (
    <div class="composer" data-dragged-over={isDraggedOver} onDragOver={onDrag} onDragLeave={() => setDraggedOver(false)} onDrop={onDrag}>
      {completions.length > 0 && (
        <ul role="listbox" class="completions" id="completions" aria-label="Commands and skills">
          {completions.map((command, index) => (
            <li
              key={command.name}
              id={`completion-${index}`}
              role="option"
              aria-selected={index === selectedIndex}
              onMouseDown={keepFocus}
              onClick={() => complete(command)}
            >
              <span class="mono">/{command.name}</span>
              <span class="muted small ellipsis">{command.description}</span>
            </li>
          ))}
        </ul>
      )}
      {/* ARIA allows no `aria-expanded` on a multi-line text field, so a status announces the list. */}
      <p class="visually-hidden" role="status">
        {completions.length > 0 &&
          `${completions.length === 1 ? '1 command' : `${completions.length} commands`}. Use the arrow keys to select, Tab to complete, Escape to close.`}
      </p>
      <div class="composer-above">
        {(files.length > 0 || missingFiles(id).length > 0) && (
          <Suspense fallback={null}>
            <UploadList sessionId={id} />
          </Suspense>
        )}
        {!active && files.length > 0 && !sessionsAwaitingUploads.value.has(id) && (
          <p class="notice">Files can be sent when {host} is back. Remove them to leave a message.</p>
        )}
        {excess !== null && (
          <p class="notice danger" role="alert">
            {excess}
          </p>
        )}
      </div>
      <div class="composer-line">
        {active && (
          <button type="button" class="button quiet icon" aria-label="Attach files" onClick={() => fileInput.current?.click()}>
            <Paperclip size={19} />
          </button>
        )}
        <input
          ref={fileInput}
          type="file"
          multiple
          hidden
          aria-label="Files"
          onChange={({ currentTarget }) => {
            addFiles(id, currentTarget.files ?? []);
            currentTarget.value = '';
          }}
        />
        <div class="auto-grow" data-text={text}>
          <textarea
            ref={textField}
            id="composer"
            rows={1}
            dir="auto"
            value={text}
            placeholder={isDraggedOver ? 'Drop files here' : active ? 'Message, or / for commands' : 'Message for later'}
            aria-label="Message to the agent"
            aria-autocomplete="list"
            aria-haspopup="listbox"
            aria-controls={completions.length > 0 ? 'completions' : undefined}
            aria-activedescendant={completions.length > 0 ? `completion-${selectedIndex}` : undefined}
            onInput={({ currentTarget }) => changeText(currentTarget.value)}
            onKeyDown={onKeyDown}
            onPaste={onPaste}
          />
        </div>
        {active ? (
          <button type="button" class="button primary icon" aria-label="Send" disabled={!isReady} onClick={send}>
            <SendHorizontal size={19} />
          </button>
        ) : (
          <button type="button" class="button primary leave" disabled={!isReady} onClick={send}>
            <span class="ellipsis">Leave for {host}</span>
          </button>
        )}
      </div>
      {active && <ComposerSettings session={session} />}
    </div>
  );
}
