/** Renders one item of a conversation. */

import './timeline-item.css';
import { AlertTriangle, Brain, Check, Clock, Paperclip, RotateCw, Terminal, X } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import type { Attachment, Session } from '../api/types.ts';
import { formatSize } from '../content/file-size.ts';
import { formatJson } from '../content/format-json.ts';
import { Markdown } from '../ui/markdown.tsx';
import { isTooLongForMarkdown } from '../content/render-markdown.ts';
import type { TimelineItem } from '../content/timeline.ts';
import { outbox } from '../state/hub-client.ts';
import type { OutgoingMessage } from '../content/unstored-messages.ts';
import { Disclosure } from '../ui/disclosure.tsx';
import { formatAge } from '../ui/format.ts';
import { AnsweredRequest } from './answered-request.tsx';
import { LoadWhole } from './load-whole.tsx';
import { TodoList } from './todos.tsx';
import { ResultDisclosure, ToolCall } from './tool-call.tsx';
import { Images, ToolOutput } from './tool-content.tsx';

export function TimelineItemView({ item, session: { id, metadata } }: { item: TimelineItem; session: Session }) {
  switch (item.kind) {
    case 'user':
      return (
        <UserMessage attachments={item.attachments} time={item.createdAt} note={userMessageNote(item)}>
          {item.text}
          <LoadWhole cut={item.cut} sessionId={id} />
        </UserMessage>
      );
    case 'outgoing':
      return <Outgoing sessionId={id} outgoing={item.outgoing} />;
    case 'text':
      if (item.isTail) return <LiveTail text={item.text} />;
      return isTooLongForMarkdown(item.text) || item.cut ? (
        <>
          <ToolOutput text={item.text} isExcerpt={item.cut !== undefined} />
          <LoadWhole cut={item.cut} sessionId={id} />
        </>
      ) : (
        <Markdown text={item.text} isLive={item.isLive} />
      );
    case 'thinking':
      return (
        <Disclosure icon={<Brain size={15} aria-hidden />} title={item.isLive ? 'Thinking …' : 'Thinking'}>
          <p class="thinking">{item.text}</p>
          <LoadWhole cut={item.cut} sessionId={id} />
        </Disclosure>
      );
    case 'tool':
      return <ToolCall tool={item} metadata={metadata} sessionId={id} />;
    case 'result':
      return (
        <ResultDisclosure
          icon={<Terminal size={15} aria-hidden />}
          title="Output of an earlier tool call"
          isFailed={item.isError}
          output={item.text}
          images={item.images}
          cut={item.cut}
          sessionId={id}
        />
      );
    case 'permission':
      return <AnsweredRequest request={item.request} metadata={metadata} />;
    case 'image':
      return <Images urls={[item.url]} />;
    case 'plan':
      return <TodoList todos={item.todos} />;
    case 'event':
      return <Event name={item.name} text={item.text} />;
    case 'error':
      return (
        <p class="turn-error">
          <AlertTriangle size={15} aria-hidden /> <span>{item.text}</span>
          <LoadWhole cut={item.cut} sessionId={id} />
        </p>
      );
    case 'large':
      return (
        <div class="stack">
          <p class="event">{item.isImage ? 'An image' : 'A large message'} is not loaded.</p>
          <LoadWhole cut={item.cut} sessionId={id} />
        </div>
      );
    case 'unknown':
      return (
        <Disclosure icon={<Terminal size={15} aria-hidden />} title="Unknown message">
          <ToolOutput text={formatJson(item.json)} />
        </Disclosure>
      );
  }
}

/** Shows live text whose beginning is missing. */
function LiveTail({ text }: { text: string }) {
  return (
    <>
      <p class="muted small">The agent is writing. The beginning of the text appears when the text is complete.</p>
      <p class="live-tail">{text}</p>
    </>
  );
}

function userMessageNote({ from, isQueued }: Extract<TimelineItem, { kind: 'user' }>) {
  if (from === 'cli') return 'typed at the terminal';
  return isQueued ? 'Queued: the agent has not received it yet. Stop drops it.' : undefined;
}

function Event({ name, text }: { name: string; text: string | undefined }) {
  if (name === 'ready') return <hr class="turn-end" />;
  if (name === 'compaction') return <p class="event boundary">Context compacted{text && ` at ${text}`}</p>;
  if (name === 'message' && text) return <p class="event">{text}</p>;
  return (
    <p class="event">
      {name.replaceAll('_', ' ')}
      {text && `: ${text}`}
    </p>
  );
}

/** Shows a relative time, with the exact time as a tooltip. */
function Timestamp({ time }: { time: number }) {
  const date = new Date(time);
  return (
    <time class="muted timestamp" dateTime={date.toISOString()} title={date.toLocaleString()}>
      {formatAge(time)}
    </time>
  );
}

interface UserMessageProps {
  attachments: Attachment[];
  time?: number;
  note?: string | undefined;
  children: ComponentChildren;
}

function UserMessage({ attachments, time, note, children }: UserMessageProps) {
  return (
    <div class="user-message">
      <span class="prompt" aria-hidden>
        ›
      </span>
      <div>
        <span class="visually-hidden">You: </span>
        <div class="user-message-text">{children}</div>
        {attachments.length > 0 && (
          <ul role="list" class="attachments" aria-label="Attachments">
            {attachments.map(({ id, filename, size }) => (
              <li key={id} class="chip">
                <Paperclip size={13} aria-hidden />
                <span class="ellipsis">{filename}</span> <span>{formatSize(size)}</span>
              </li>
            ))}
          </ul>
        )}
        {note && <p class="muted small">{note}</p>}
      </div>
      {time !== undefined && <Timestamp time={time} />}
    </div>
  );
}

function Outgoing({ sessionId, outgoing }: { sessionId: string; outgoing: OutgoingMessage }) {
  const { status, error, text, attachments, localId, isVolatile } = outgoing;
  return (
    <div class="outgoing" data-state={status}>
      <UserMessage attachments={attachments}>{text}</UserMessage>
      <p class="outgoing-status small" role="status">
        {status === 'sending' && (
          <>
            <Clock size={13} aria-hidden /> Sending …
          </>
        )}
        {status === 'sent' && (
          <>
            <Check size={13} aria-hidden /> Sent
          </>
        )}
        {status === 'waiting' && (
          <>
            <Clock size={13} aria-hidden /> Waiting for the hub
            {isVolatile && '. Keep this page open: the browser cannot store the message.'}
          </>
        )}
        {status === 'failed' && (
          <>
            <AlertTriangle size={13} aria-hidden /> Not sent: {error}
          </>
        )}
      </p>
      {(status === 'failed' || status === 'waiting') && (
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
