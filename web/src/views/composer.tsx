/** The composer: writes messages with attachments, completes commands, and sets the permission mode and the model. */

import './composer.css';
import { Paperclip, SendHorizontal } from 'lucide-preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Choice, Session } from '../api/types.ts';
import { type Command, matchCommands } from '../content/completions.ts';
import { describeUsage, describeUsageBriefly } from '../content/usage.ts';
import * as actions from '../state/actions.ts';
import { currentModel, modelsOf, modesOf } from '../state/catalog.ts';
import { fetchCommands } from '../state/commands.ts';
import { getMessageDraft, updateMessageDraft } from '../state/drafts.ts';
import { outbox } from '../state/hub-client.ts';
import { state } from '../state/store.ts';
import { addFiles, forgetMissingFiles, getUploads, takeAttachments } from '../state/uploads.ts';
import { hasKeyboard } from '../ui/device.ts';
import { tryOrToast } from '../ui/toasts.tsx';
import { confirmNeverAsking } from './confirm-never-asking.ts';
import { UploadList } from './upload-list.tsx';

const numbers = new Intl.NumberFormat('en');

/** Returns an error text if a message is longer than the hub's limit; otherwise null. */
function describeExcess(text: string): string | null {
  const limit = state.value.config?.limits.messageBytes ?? Infinity;
  const { length } = new TextEncoder().encode(text);
  if (length <= limit) return null;
  return `The message has ${numbers.format(length)} bytes; the limit is ${numbers.format(limit)}. Shorten it, or attach the text as a file.`;
}

/** Keeps the focus in the text field while a completion is clicked. */
const keepFocus = (event: Event) => event.preventDefault();

export function Composer({ session }: { session: Session }) {
  const { id } = session;
  const { text } = getMessageDraft(id);
  const [commands, setCommands] = useState<Command[]>([]);
  const [selectedIndex, setSelectedIndex] = useState(0);
  const [isDismissed, setDismissed] = useState(false);
  const [isDraggedOver, setDraggedOver] = useState(false);
  const textField = useRef<HTMLTextAreaElement>(null);
  const fileInput = useRef<HTMLInputElement>(null);
  const files = getUploads(id);
  const completions = isDismissed ? [] : matchCommands(commands, text);
  const excess = describeExcess(text.trim());
  // A message cannot be sent before all its files are uploaded.
  const isReady = excess === null && (text.trim() !== '' || files.length > 0) && files.every(({ status }) => status === 'done');

  const startsCommand = text.startsWith('/');
  useEffect(() => {
    if (startsCommand) void fetchCommands(id).then(setCommands);
  }, [id, startsCommand]);

  const changeText = (next: string) => {
    updateMessageDraft(id, { text: next });
    setSelectedIndex(0);
    setDismissed(false);
  };
  const send = () => {
    if (!isReady) return;
    void outbox.send(id, text.trim(), takeAttachments(id));
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
    else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && (hasKeyboard.value || event.ctrlKey || event.metaKey))
      send();
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
    setDraggedOver(false);
    addFiles(id, event.dataTransfer?.files ?? []);
  };

  return (
    <div
      class="composer"
      data-dragged-over={isDraggedOver}
      onDragOver={(event) => {
        event.preventDefault();
        setDraggedOver(true);
      }}
      onDragLeave={() => setDraggedOver(false)}
      onDrop={onDrop}
    >
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
        <UploadList sessionId={id} />
        {excess !== null && (
          <p class="notice danger small" role="alert">
            {excess}
          </p>
        )}
      </div>
      <div class="composer-line">
        <button type="button" class="button quiet icon" aria-label="Attach files" onClick={() => fileInput.current?.click()}>
          <Paperclip size={19} aria-hidden />
        </button>
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
            placeholder={isDraggedOver ? 'Drop files here' : 'Message, or / for commands'}
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
        <button type="button" class="button primary icon" aria-label="Send" disabled={!isReady} onClick={send}>
          <SendHorizontal size={19} aria-hidden />
        </button>
      </div>
      <ModeSelects session={session} />
    </div>
  );
}

function ModeSelects({ session }: { session: Session }) {
  const { id, metadata, permissionMode = 'default' } = session;
  const modes = modesOf(metadata);
  const setMode = (mode: string) => {
    const apply = () => actions.setPermissionMode(id, mode);
    if (modes.find((choice) => choice.id === mode)?.neverAsks) confirmNeverAsking(apply);
    else void tryOrToast('Could not change the mode', apply);
  };
  return (
    <div class="composer-settings">
      <ChoiceSelect label="Permission mode" choices={modes} value={permissionMode} onChange={setMode} />
      <ChoiceSelect
        label="Model"
        choices={modelsOf(metadata)}
        value={currentModel(session)}
        onChange={(model) => void tryOrToast('Could not change the model', () => actions.setModel(id, model))}
      />
      <Usage usage={metadata?.usage} />
      <span class="muted small composer-hint">{hasKeyboard.value ? 'Enter to send, Shift+Enter for a new line' : ''}</span>
    </div>
  );
}

/** Shows the usage of the context. On a phone, only the short text fits. */
function Usage({ usage }: { usage: unknown }) {
  const text = describeUsage(usage);
  return (
    text && (
      <span class="muted small usage" title={`${text}: the tokens in the agent's context, and the cost of the session`}>
        <span class="usage-long">{text}</span>
        <span class="usage-short" aria-hidden>
          {describeUsageBriefly(usage)}
        </span>
      </span>
    )
  );
}

interface ChoiceSelectProps {
  label: string;
  choices: Choice[];
  value: string;
  onChange: (id: string) => void;
}

/** A select that shows the old value until an event confirms the new value. Renders nothing without choices. */
function ChoiceSelect({ label, choices, value, onChange }: ChoiceSelectProps) {
  if (choices.length === 0) return null;
  const current = choices.find(({ id }) => id === value);
  return (
    <select
      aria-label={label}
      class={current?.neverAsks ? 'never-asks' : undefined}
      title={current?.description}
      value={value}
      onChange={({ currentTarget }) => {
        const next = currentTarget.value;
        currentTarget.value = value;
        onChange(next);
      }}
    >
      {!current && <option value={value}>{value}</option>}
      {choices.map(({ id, label: text, description, neverAsks }) => (
        <option key={id} value={id} title={description} class={neverAsks ? 'never-asks' : 'asks'}>
          {text}
        </option>
      ))}
    </select>
  );
}
