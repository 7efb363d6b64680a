/** One item of a conversation. */

import './item.css';
import { AlertTriangle, Brain, Check, Clock, Paperclip, RotateCw, Terminal, X } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import type { Attachment } from '../api/types.ts';
import type { Item } from '../content/timeline.ts';
import { json } from '../content/json.ts';
import { Markdown } from '../content/markdown.tsx';
import { isTooLong } from '../content/markup.ts';
import { outbox } from '../hub.ts';
import type { Outgoing } from '../state/types.ts';
import { Fold } from '../ui/fold.tsx';
import { ago, sizeOf } from '../ui/pieces.tsx';
import { Permission } from './permission.tsx';
import { TodoList } from './todos.tsx';
import { ResultFold, ToolCall } from './tool.tsx';
import { Output, Pictures } from './tool-input.tsx';

/** Shows an item. */
export function ItemView({ item, sessionId }: { item: Item; sessionId: string }) {
  switch (item.kind) {
    case 'user':
      return (
        <Said attachments={item.attachments} at={item.createdAt} note={item.from === 'cli' ? 'typed at the terminal' : undefined}>
          {item.text}
        </Said>
      );
    case 'outgoing':
      return <Sending sessionId={sessionId} outgoing={item.outgoing} />;
    case 'text':
      return isTooLong(item.text) ? <Output text={item.text} /> : <Markdown text={item.text} />;
    case 'thinking':
      return (
        <Fold id={item.key} icon={<Brain size={15} aria-hidden />} title="Thought">
          <p class="thought">{item.text}</p>
        </Fold>
      );
    case 'tool':
      return <ToolCall tool={item} />;
    case 'result':
      return (
        <ResultFold id={item.key} icon={<Terminal size={15} aria-hidden />} title="Output of an earlier call" isBad={item.isError} output={item.text} images={item.images} />
      );
    case 'permission':
      return <Permission id={item.key} request={item.request} />;
    case 'image':
      return <Pictures urls={[item.url]} />;
    case 'plan':
      return <TodoList todos={item.todos} />;
    case 'event':
      return <Event name={item.name} text={item.text} />;
    case 'unknown':
      return (
        <Fold id={item.key} icon={<Terminal size={15} aria-hidden />} title="A record of another kind">
          <Output text={json(item.json)} />
        </Fold>
      );
  }
}

function Event({ name, text }: { name: string; text: string | undefined }) {
  if (name === 'ready') return <hr class="turn-end" />;
  return (
    <p class="event">
      {name.replaceAll('_', ' ')}
      {text && `: ${text}`}
    </p>
  );
}

/** A time that is read at a glance, and exactly on a second look. */
function When({ at }: { at: number }) {
  const time = new Date(at);
  return (
    <time class="muted when" dateTime={time.toISOString()} title={time.toLocaleString()}>
      {ago(at)}
    </time>
  );
}

interface SaidProps {
  attachments: Attachment[];
  at?: number;
  note?: string | undefined;
  children: ComponentChildren;
}

function Said({ attachments, at, note, children }: SaidProps) {
  return (
    <div class="said">
      <span class="prompt" aria-hidden>
        ›
      </span>
      <div>
        <span class="hidden-visually">You: </span>
        <div class="said-text">{children}</div>
        {attachments.length > 0 && (
          <ul role="list" class="attachments" aria-label="Attachments">
            {attachments.map(({ id, filename, size }) => (
              <li key={id} class="chip">
                <Paperclip size={13} aria-hidden />
                <span class="ellipsis">{filename}</span>{' '}
                <span>{sizeOf(size)}</span>
              </li>
            ))}
          </ul>
        )}
        {note && <p class="muted small">{note}</p>}
      </div>
      {at !== undefined && <When at={at} />}
    </div>
  );
}

function Sending({ sessionId, outgoing }: { sessionId: string; outgoing: Outgoing }) {
  const { state, error, text, attachments, localId } = outgoing;
  return (
    <div class="sending" data-state={state}>
      <Said attachments={attachments}>{text}</Said>
      <p class="send-state small" role="status">
        {state === 'sending' && (
          <>
            <Clock size={13} aria-hidden /> Sending …
          </>
        )}
        {state === 'sent' && (
          <>
            <Check size={13} aria-hidden /> Sent
          </>
        )}
        {state === 'waiting' && (
          <>
            <Clock size={13} aria-hidden /> Goes out as soon as the hub can be reached
          </>
        )}
        {state === 'failed' && (
          <>
            <AlertTriangle size={13} aria-hidden /> Not sent: {error}
          </>
        )}
      </p>
      {(state === 'failed' || state === 'waiting') && (
        <div class="actions">
          <button type="button" class="button" onClick={() => void outbox.retry(sessionId, outgoing)}>
            <RotateCw size={15} aria-hidden /> Retry
          </button>
          <button type="button" class="button quiet" onClick={() => outbox.discard(sessionId, localId)}>
            <X size={15} aria-hidden /> Discard
          </button>
        </div>
      )}
    </div>
  );
}
