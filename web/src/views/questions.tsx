/** The agent's questions, each with choices or a line to write. */

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import type { Question } from '../content/arguments.ts';
import type { AnswerDraft } from '../state/drafts.ts';
import { Visible } from '../ui/visible.tsx';

interface Props {
  questions: Question[];
  /** What else there is to see before they are answered. */
  rest: ComponentChildren;
  draft: AnswerDraft;
  onDraft: (changes: Partial<AnswerDraft>) => void;
  onAnswer: (answers: Record<string, string[]>) => void;
  onSkip: () => void;
}

/** A form with all questions of one request. */
export function Questions({ questions, rest, draft: { chosen, written }, onDraft, onAnswer, onSkip }: Props) {
  const answerOf = ({ key }: Question) => {
    const own = written.get(key)?.trim();
    return [...(chosen.get(key) ?? []), ...(own ? [own] : [])];
  };
  const isComplete = questions.every((one) => answerOf(one).length > 0);
  const submit = (event: Event) => {
    event.preventDefault();
    onAnswer(Object.fromEntries(questions.map((one) => [one.key, answerOf(one)])));
  };
  const choose = ({ key, isMultiple }: Question, label: string) => {
    const before = chosen.get(key) ?? [];
    const added = isMultiple ? [...before, label] : [label];
    const all = new Map(chosen).set(key, before.includes(label) ? before.filter((one) => one !== label) : added);
    // One answer to a question of one: what was written is none then.
    onDraft(isMultiple ? { chosen: all } : { chosen: all, written: new Map(written).set(key, '') });
  };
  const write = ({ key, isMultiple }: Question, text: string) => {
    const all = new Map(written).set(key, text);
    onDraft(isMultiple || text === '' ? { written: all } : { written: all, chosen: new Map(chosen).set(key, []) });
  };
  return (
    <form onSubmit={submit}>
      {questions.map((question) => (
        <Asked
          key={question.key}
          question={question}
          chosen={chosen.get(question.key) ?? []}
          written={written.get(question.key) ?? ''}
          onChoose={(label) => choose(question, label)}
          onWrite={(text) => write(question, text)}
        />
      ))}
      {rest}
      <div class="request-actions">
        <button type="submit" class="button primary" disabled={!isComplete}>
          Answer
        </button>
        <button type="button" class="button" onClick={onSkip}>
          Do not answer
        </button>
      </div>
    </form>
  );
}

interface AskedProps {
  question: Question;
  chosen: string[];
  written: string;
  onChoose: (label: string) => void;
  onWrite: (text: string) => void;
}

function Asked({ question, chosen, written, onChoose, onWrite }: AskedProps) {
  const { text, header, options, isMultiple } = question;
  const name = useId();
  return (
    <fieldset class="question">
      <legend>
        {header && (
          <span class="chip accent">
            <Visible text={header} />
          </span>
        )}{' '}
        <Visible text={text} />
      </legend>
      {options.map(({ label, description }) => (
        <label key={label} class="check">
          <input type={isMultiple ? 'checkbox' : 'radio'} name={name} checked={chosen.includes(label)} onChange={() => onChoose(label)} />
          <span>
            <Visible text={label} />
            {description && (
              <span class="muted small">
                {' '}
                — <Visible text={description} />
              </span>
            )}
          </span>
        </label>
      ))}
      <input
        class="input"
        aria-label={options.length > 0 ? `Another answer to: ${text}` : `Answer to: ${text}`}
        placeholder={options.length > 0 ? 'Or in your own words' : 'Your answer'}
        value={written}
        onInput={({ currentTarget }) => onWrite(currentTarget.value)}
      />
    </fieldset>
  );
}
