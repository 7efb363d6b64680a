/** Renders one item of a conversation. */

import './timeline-item.css';
import { AlertTriangle, Brain, Check, Clock, Copy, GitFork, Hourglass, RotateCw, Terminal, X } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import type { Session } from '../api/types.ts';
import { formatJson } from '../content/format-json.ts';
import { Markdown } from './markdown.tsx';
import { isTooLongForMarkdown } from '../content/markdown-length.ts';
import type { TimelineItem, UserItem } from '../content/timeline-item.ts';
import { getOwn } from '../state/get-own.ts';
import { outbox } from '../state/hub-client.ts';
import { type ForkPoint, forkPoint } from '../state/jump.ts';
import { hasEnded } from '../state/sessions.ts';
import { useSelector } from '../state/use-selector.ts';
import type { OutgoingMessage } from '../content/unstored-messages.ts';
import { copyToClipboard } from '../ui/clipboard.ts';
import { Disclosure } from '../ui/disclosure.tsx';
import { ErrorText } from '../ui/error-text.tsx';
import { TextWithCode } from '../ui/text-with-code.tsx';
import { ItemTimestamp } from '../ui/timestamp.tsx';
import { AnsweredRequest } from './answered-request.tsx';
import { HeldMessage } from './held-message.tsx';
import { LoadWhole } from './load-whole.tsx';
import { TodoList } from './todos.tsx';
import { ResultDisclosure, ToolCall } from './tool-call.tsx';
import { Images, ToolOutput } from './tool-content.tsx';
import { UserMessage } from './user-message.tsx';

interface Props {
  item: TimelineItem;
  sessionId: string;
  metadata: Session['metadata'];
  isActive: boolean;
  /** Shown in the message of the user that starts a turn. */
  turnLine?: ComponentChildren;
}

/** `isActive`: whether the session's CLI is connected, so that attached images can be loaded. */
export function TimelineItemView({ item, sessionId: id, metadata, isActive, turnLine }: Props) {
  switch (item.kind) {
    case 'user':
      return (
        <UserMessage
          attachments={item.attachments}
          sessionId={id}
          metadata={metadata}
          isActive={isActive}
          note={userMessageNote(item)}
          isCanceled={item.outcome === 'canceled'}
          meta={<MessageMeta copyText={item.cut ? undefined : item.text} fork={toForkPoint(item, id)} />}
          after={turnLine}
        >
          <TextWithCode text={item.text} />
          <LoadWhole cut={item.cut} sessionId={id} />
        </UserMessage>
      );
    case 'outgoing':
      return item.outgoing.status === 'held' ? (
        <HeldMessage sessionId={id} metadata={metadata} message={item.outgoing} />
      ) : (
        <Outgoing sessionId={id} metadata={metadata} outgoing={item.outgoing} />
      );
    case 'text':
      if (item.isTail) return <LiveTail text={item.text} />;
      return isTooLongForMarkdown(item.text) || item.cut ? (
        <>
          <MessageMeta copyText={item.cut ? undefined : item.text} />
          <ToolOutput text={item.text} isExcerpt={item.cut !== undefined} />
          <LoadWhole cut={item.cut} sessionId={id} />
        </>
      ) : (
        <>
          {!item.isLive && <MessageMeta copyText={item.text} />}
          <Markdown text={item.text} isLive={item.isLive} />
        </>
      );
    case 'thinking':
      return (
        <Disclosure icon={<Brain size={15} />} title={item.isLive ? 'Thinking …' : 'Thinking'}>
          <p class="thinking">
            <TextWithCode text={item.text} />
          </p>
          <LoadWhole cut={item.cut} sessionId={id} />
        </Disclosure>
      );
    case 'tool':
      return (
        <ToolCall
          tool={item}
          metadata={metadata}
          sessionId={id}
          renderItem={(child) => <TimelineItemView item={child} sessionId={id} metadata={metadata} isActive={false} />}
        />
      );
    case 'result':
      return (
        <ResultDisclosure
          icon={<Terminal size={15} />}
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
      return (
        <>
          <MessageMeta />
          <Images urls={[item.url]} />
        </>
      );
    case 'plan':
      return (
        <>
          <MessageMeta />
          <TodoList todos={item.todos} />
        </>
      );
    case 'event':
      return <Event name={item.name} text={item.text} />;
    case 'error':
      return (
        <p class="turn-error">
          <AlertTriangle size={15} /> <span>{item.text}</span>
          <LoadWhole cut={item.cut} sessionId={id} />
          <ItemTimestamp />
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
        <Disclosure icon={<Terminal size={15} />} title="Unknown message">
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

function userMessageNote({ from, isQueued, outcome }: UserItem) {
  if (outcome === 'canceled') return 'Canceled: the agent did not receive it.';
  if (outcome === 'edited') return 'Edited while it was queued.';
  if (from === 'cli') return 'typed at the terminal';
  return isQueued ? 'Queued: the agent has not received it yet. Stop drops it.' : undefined;
}

function Event({ name, text }: { name: string; text: string | undefined }) {
  if (name === 'ready') return <hr class="turn-end" />;
  if (name === 'compaction')
    return (
      <p class="event boundary">
        Context compacted{text && ` at ${text}`} <ItemTimestamp />
      </p>
    );
  return (
    <p class="event">
      {name === 'message' && text ? text : `${name.replaceAll('_', ' ')}${text ? `: ${text}` : ''}`} <ItemTimestamp />
    </p>
  );
}

/** Returns where a fork before a message of the user begins; undefined for a message that the agent has not received. */
const toForkPoint = ({ seq, text, isQueued, outcome }: UserItem, sessionId: string): ForkPoint | undefined =>
  seq === undefined || isQueued || outcome === 'canceled' ? undefined : { sessionId, seq, text };

/** The time of a message, and buttons that copy its text and fork the session before it. The text of the message flows around them. */
function MessageMeta({ copyText, fork }: { copyText?: string | undefined; fork?: ForkPoint | undefined }) {
  return (
    <span class="message-meta">
      <ItemTimestamp />
      {fork && (
        <button
          type="button"
          class="message-button"
          aria-label="Fork from here"
          title="Fork from here"
          onClick={() => {
            forkPoint.value = fork;
          }}
        >
          <GitFork size={15} />
        </button>
      )}
      {copyText && (
        <button type="button" class="message-button" aria-label="Copy message" title="Copy" onClick={() => void copyToClipboard(copyText)}>
          <Copy size={15} />
        </button>
      )}
    </span>
  );
}

/** A message that this browser has sent, or could not send. */
export function Outgoing({
  sessionId,
  metadata,
  outgoing,
}: {
  sessionId: string;
  metadata: Session['metadata'];
  outgoing: OutgoingMessage;
}) {
  const { status, error, text, attachments, localId, isVolatile } = outgoing;
  const session = useSelector(({ sessions }) => getOwn(sessions, sessionId));
  // The hub does not hold messages with files.
  const canLeave = session !== undefined && !session.active && !hasEnded(session) && attachments.length === 0;
  return (
    <div class="outgoing" data-state={status}>
      <UserMessage attachments={attachments} sessionId={sessionId} metadata={metadata} isActive={false}>
        <TextWithCode text={text} />
      </UserMessage>
      <p class="outgoing-status small" role="status">
        {status === 'sending' && (
          <>
            <Clock size={13} /> Sending …
          </>
        )}
        {status === 'sent' && (
          <>
            <Check size={13} /> Sent
          </>
        )}
        {status === 'waiting' && (
          <>
            <Clock size={13} /> Waiting for the hub
            {isVolatile && '. Keep this page open: the browser cannot store the message.'}
          </>
        )}
        {status === 'failed' && (
          <>
            <AlertTriangle size={13} /> Not sent: {error !== undefined && <ErrorText text={error} />}
          </>
        )}
      </p>
      {(status === 'failed' || status === 'waiting') && (
        <div class="actions">
          {session ? (
            <button type="button" class="button" onClick={() => void outbox.retry(sessionId, outgoing, canLeave)}>
              {canLeave ? <Hourglass size={15} /> : <RotateCw size={15} />}
              <span class="ellipsis">{canLeave && status === 'failed' ? `Leave for ${metadata?.host || 'its machine'}` : 'Retry'}</span>
            </button>
          ) : (
            <button type="button" class="button" onClick={() => void copyToClipboard(text)}>
              <Copy size={15} /> Copy
            </button>
          )}
          <button type="button" class="button quiet" onClick={() => outbox.discard(sessionId, localId)}>
            <X size={15} /> Discard
          </button>
        </div>
      )}
    </div>
  );
}
