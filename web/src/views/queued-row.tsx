/** One message that waits for the agent. */

import { ArrowDown, ArrowUp, Check, ChevronDown, ChevronRight, GripVertical, Paperclip, Pencil, SendHorizontal, X } from 'lucide-preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { cutText } from '../content/cut-text.ts';
import { TextWithCode } from '../ui/text-with-code.tsx';

/** Limit on the part of a message that names its buttons. */
const MAX_NAME_LENGTH = 40;

export interface QueuedMessage {
  seq: number;
  text: string;
  /** The names of the attached files. */
  files: string[];
  isEdited: boolean;
  /** Whether `text` is the whole text. */
  isWhole: boolean;
}

interface Props {
  message: QueuedMessage;
  /** Whether the session's CLI is connected. */
  isActive: boolean;
  canSend: boolean;
  canMove: boolean;
  /** Whether the agent takes a message during its turn. */
  steers: boolean;
  isFirst: boolean;
  isLast: boolean;
  isBusy: boolean;
  isDragged: boolean;
  /** Whether the whole text and all buttons are shown. */
  isOpen: boolean;
  /** The text while the user edits the message. */
  editText: string | undefined;
  onToggle: () => void;
  onDrag: () => void;
  onMove: (places: number) => void;
  onSend: () => void;
  onCancel: () => void;
  onEdit: () => void;
  onEditInput: (text: string) => void;
  onSave: () => void;
  onDiscard: () => void;
}

export function QueuedRow(props: Props) {
  const { message, isActive, canSend, canMove, steers, isBusy, isDragged, isOpen, editText, onToggle, onDrag, onMove, onSend } = props;
  const { seq, text, files, isEdited } = message;
  const name = cutText(text || files.join(), MAX_NAME_LENGTH);
  const onKeyDown = (event: KeyboardEvent) => {
    if (!event.altKey || !canMove || !isActive || (event.key !== 'ArrowUp' && event.key !== 'ArrowDown')) return;
    event.preventDefault();
    onMove(event.key === 'ArrowUp' ? -1 : 1);
  };
  const row = useRef<HTMLLIElement>(null);
  const summary = useRef<HTMLButtonElement>(null);
  const wasEditing = useRef(false);
  useLayoutEffect(() => {
    // The editor had the focus.
    if (wasEditing.current && editText === undefined) summary.current?.focus();
    wasEditing.current = editText !== undefined;
  }, [editText === undefined]);
  useLayoutEffect(() => {
    if (isOpen) row.current?.scrollIntoView({ block: 'nearest' });
  }, [isOpen, editText === undefined]);
  const Chevron = isOpen ? ChevronDown : ChevronRight;
  return (
    <li ref={row} class="queued" data-seq={seq} data-dragged={isDragged} onKeyDown={onKeyDown}>
      <div class="queued-line">
        {isActive && canMove && (
          <button
            type="button"
            class="button quiet icon queued-handle"
            aria-label={`Move: ${name}`}
            aria-keyshortcuts="Alt+ArrowUp Alt+ArrowDown"
            title="Drag to move, or press Alt with an arrow key"
            onPointerDown={(event) => event.button === 0 && onDrag()}
          >
            <GripVertical size={17} />
          </button>
        )}
        <button type="button" class="queued-summary" ref={summary} aria-expanded={isOpen} onClick={onToggle}>
          <Chevron size={15} />
          <span class="ellipsis" dir="auto">
            {text ? <TextWithCode text={text} /> : files.length === 0 && '…'}
          </span>
          {files.length > 0 && (
            <span class="muted small queued-mark">
              <Paperclip size={13} /> {files.length}
              <span class="visually-hidden"> {files.length === 1 ? 'file' : 'files'}</span>
            </span>
          )}
          {isEdited && <span class="muted small queued-mark">edited</span>}
        </button>
        {isActive && canSend && (
          <button
            type="button"
            class="button quiet icon"
            aria-label={`${steers ? 'Send now' : 'Stop and send now'}: ${name}`}
            title={steers ? 'Send now, while the agent works' : 'Stop the turn, and send this message now'}
            disabled={isBusy}
            onClick={onSend}
          >
            <SendHorizontal size={17} />
          </button>
        )}
      </div>
      {isOpen && (editText === undefined ? <Details {...props} /> : <Editor {...props} text={editText} />)}
    </li>
  );
}

function Details({ message, isActive, canMove, isFirst, isLast, isBusy, onMove, onCancel, onEdit }: Props) {
  return (
    <div class="queued-details">
      <p class="queued-text" dir="auto">
        <TextWithCode text={message.text} />
        {!message.isWhole && ' …'}
      </p>
      {message.files.length > 0 && <p class="muted small">{message.files.join(', ')}</p>}
      {isActive && (
        <div class="actions">
          <button type="button" class="button quiet" disabled={isBusy} onClick={onEdit}>
            <Pencil size={15} /> Edit
          </button>
          {canMove && (
            <>
              <button type="button" class="button quiet" aria-label="Move up" disabled={isFirst} onClick={() => onMove(-1)}>
                <ArrowUp size={15} /> <span class="queued-move-label">Move up</span>
              </button>
              <button type="button" class="button quiet" aria-label="Move down" disabled={isLast} onClick={() => onMove(1)}>
                <ArrowDown size={15} /> <span class="queued-move-label">Move down</span>
              </button>
            </>
          )}
          <button type="button" class="button quiet" disabled={isBusy} onClick={onCancel}>
            <X size={15} /> Cancel
          </button>
        </div>
      )}
    </div>
  );
}

function Editor({ text, message, isBusy, onEditInput, onSave, onDiscard }: Props & { text: string }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const isReady = text.trim() !== '' || message.files.length > 0;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') onDiscard();
    else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && isReady) onSave();
    else return;
    event.preventDefault();
  };
  return (
    <div class="queued-details">
      <textarea
        ref={field}
        class="queued-editor"
        rows={Math.min(6, text.split('\n').length + 1)}
        dir="auto"
        value={text}
        aria-label="Queued message"
        onInput={({ currentTarget }) => onEditInput(currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <div class="actions">
        <button type="button" class="button primary" disabled={isBusy || !isReady} onClick={onSave}>
          <Check size={15} /> Save
        </button>
        <button type="button" class="button quiet" onClick={onDiscard}>
          <X size={15} /> Discard changes
        </button>
      </div>
    </div>
  );
}
