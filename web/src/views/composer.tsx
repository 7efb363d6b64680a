/** The line to write: text, files, commands, and how the agent works. */

import './composer.css';
import { Paperclip, SendHorizontal } from 'lucide-preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { PermissionMode, Session } from '../api/types.ts';
import { type Command, completions } from '../content/completions.ts';
import { outbox } from '../hub.ts';
import * as actions from '../state/actions.ts';
import { commandsOf } from '../state/commands.ts';
import { hasModels, MODELS, type ModelMode, modeLabel, modelLabel, modeMeaning, modesOf } from '../state/modes.ts';
import { keep } from '../state/shelf.ts';
import { addFiles, takeAttachments, uploadsOf } from '../state/uploads.ts';
import { hasKeyboard } from '../ui/device.ts';
import { attempt } from '../ui/toasts.tsx';
import { Uploads } from './attachments.tsx';

const draftKey = (id: string) => `draft ${id}`;

/** Who chooses with a pointer goes on writing. */
const keepFocus = (event: Event) => event.preventDefault();

/** The composer of a session. What is written stays when the page is left. */
export function Composer({ session }: { session: Session }) {
  const { id } = session;
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey(id)) ?? '');
  const [commands, setCommands] = useState<Command[]>([]);
  const [choice, setChoice] = useState(0);
  const [isRefused, setRefused] = useState(false);
  const [isDropping, setDropping] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const files = uploadsOf(id);
  const offered = isRefused ? [] : completions(commands, text);
  // No message goes out without a file that was meant to go with it.
  const isReady = (text.trim() !== '' || files.length > 0) && files.every(({ state }) => state === 'done');

  const startsCommand = text.startsWith('/');
  useEffect(() => {
    if (startsCommand) void commandsOf(id).then(setCommands);
  }, [id, startsCommand]);

  const write = (next: string) => {
    setText(next);
    setChoice(0);
    setRefused(false);
    if (next === '') sessionStorage.removeItem(draftKey(id));
    else keep(sessionStorage, draftKey(id), next);
  };
  const send = () => {
    if (!isReady) return;
    void outbox.send(id, text.trim(), takeAttachments(id));
    write('');
    field.current?.focus();
  };
  const complete = (command: Command) => {
    write(`/${command.name} `);
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const chosen = offered[choice];
    if (chosen && ((event.key === 'Tab' && !event.shiftKey) || (event.key === 'Enter' && `/${chosen.name}` !== text))) complete(chosen);
    else if (chosen && event.key === 'ArrowDown') setChoice((choice + 1) % offered.length);
    else if (chosen && event.key === 'ArrowUp') setChoice((choice - 1 + offered.length) % offered.length);
    else if (chosen && event.key === 'Escape') setRefused(true);
    // On a phone Enter begins a line, and the button sends.
    else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && (hasKeyboard.value || event.ctrlKey || event.metaKey)) send();
    else return;
    event.preventDefault();
  };
  const onPaste = (event: ClipboardEvent) => {
    const pasted = [...(event.clipboardData?.files ?? [])];
    if (pasted.length === 0) return;
    event.preventDefault();
    addFiles(id, pasted);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setDropping(false);
    addFiles(id, event.dataTransfer?.files ?? []);
  };

  return (
    <div
      class="composer"
      data-dropping={isDropping}
      onDragOver={(event) => {
        event.preventDefault();
        setDropping(true);
      }}
      onDragLeave={() => setDropping(false)}
      onDrop={onDrop}
    >
      {offered.length > 0 && (
        <ul role="listbox" class="completions" id="completions" aria-label="Commands and skills">
          {offered.map((command, at) => (
            <li key={command.name} id={`completion-${at}`} role="option" aria-selected={at === choice} onMouseDown={keepFocus} onClick={() => complete(command)}>
              <span class="mono">/{command.name}</span>
              <span class="muted small ellipsis">{command.description}</span>
            </li>
          ))}
        </ul>
      )}
      {/* A field of several lines has no attribute that tells of a list. */}
      <p class="hidden-visually" role="status">
        {offered.length > 0 && `${offered.length === 1 ? 'One command' : `${offered.length} commands`}: the arrow keys choose, Tab completes, Escape closes the list.`}
      </p>
      <Uploads sessionId={id} />
      <div class="composer-line">
        <button type="button" class="button quiet icon" aria-label="Attach files" onClick={() => picker.current?.click()}>
          <Paperclip size={19} aria-hidden />
        </button>
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files"
          onChange={({ currentTarget }) => {
            addFiles(id, currentTarget.files ?? []);
            currentTarget.value = '';
          }}
        />
        <div class="grower" data-text={text}>
          <textarea
            ref={field}
            id="composer"
            rows={1}
            dir="auto"
            value={text}
            placeholder={isDropping ? 'Drop the files here' : 'Message, or / for commands'}
            aria-label="Message to the agent"
            aria-autocomplete="list"
            aria-haspopup="listbox"
            aria-controls={offered.length > 0 ? 'completions' : undefined}
            aria-activedescendant={offered.length > 0 ? `completion-${choice}` : undefined}
            onInput={({ currentTarget }) => write(currentTarget.value)}
            onKeyDown={onKeyDown}
            onPaste={onPaste}
          />
        </div>
        <button type="button" class="button primary icon" aria-label="Send" disabled={!isReady} onClick={send}>
          <SendHorizontal size={19} aria-hidden />
        </button>
      </div>
      <Settings session={session} />
    </div>
  );
}

function Settings({ session }: { session: Session }) {
  const { id, metadata, permissionMode = 'default', modelMode = 'default' } = session;
  const modes = modesOf(metadata?.flavor);
  const isKnown = modes.some((one) => one === permissionMode);
  return (
    <div class="composer-settings">
      <select
        aria-label="Permission mode"
        title={modeMeaning(permissionMode)}
        value={permissionMode}
        onChange={({ currentTarget }) => {
          const mode = currentTarget.value as PermissionMode;
          // What the agent applied comes back as an event; until then, and if it refuses, it is as it was.
          currentTarget.value = permissionMode;
          void attempt('The mode was not changed', () => actions.setPermissionMode(id, mode));
        }}
      >
        {!isKnown && <option value={permissionMode}>{permissionMode}</option>}
        {modes.map((mode) => (
          <option key={mode} value={mode}>
            {modeLabel(mode)}
          </option>
        ))}
      </select>
      {hasModels(metadata?.flavor) && (
        <select
          aria-label="Model"
          value={modelMode}
          onChange={({ currentTarget }) => {
            const model = currentTarget.value as ModelMode;
            currentTarget.value = modelMode;
            void attempt('The model was not changed', () => actions.setModel(id, model));
          }}
        >
          {!MODELS.some((one) => one === modelMode) && <option value={modelMode}>{modelMode}</option>}
          {MODELS.map((model) => (
            <option key={model} value={model}>
              {modelLabel(model)}
            </option>
          ))}
        </select>
      )}
      <span class="muted small composer-hint">{hasKeyboard.value ? 'Enter sends, Shift+Enter begins a line' : ''}</span>
    </div>
  );
}
