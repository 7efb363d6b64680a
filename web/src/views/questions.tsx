/** The questions of an agent, each with options or a text field. */

import type { ComponentChildren, ComponentProps } from 'preact';
import { type MutableRef, useId } from 'preact/hooks';
import type { Question } from '../content/tool-arguments.ts';
import type { AnswerDraft } from '../state/drafts.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { RequestChoices } from './request-choices.tsx';
import { RequestContent } from './request-content.tsx';

interface Props {
  questions: Question[];
  /** Further content of the request, shown below the questions. */
  otherFields: ComponentChildren;
  draft: AnswerDraft;
  onDraft: (changes: Partial<AnswerDraft>) => void;
  onAnswers: (answers: Record<string, string[]>) => void;
  choices: Omit<ComponentProps<typeof RequestChoices>, 'canApprove'>;
  allSeenOrShowMore: MutableRef<() => boolean>;
}

/** A form with all questions of one request. Every question must be answered. */
export function Questions({
  questions,
  otherFields,
  draft: { selectedOptions, typedTexts },
  onDraft,
  onAnswers,
  choices,
  allSeenOrShowMore,
}: Props) {
  const answerOf = ({ key }: Question) => {
    const typed = typedTexts.get(key)?.trim();
    return [...(selectedOptions.get(key) ?? []), ...(typed ? [typed] : [])];
  };
  const isComplete = questions.every((question) => answerOf(question).length > 0);
  const submit = (event: Event) => {
    event.preventDefault();
    onAnswers(Object.fromEntries(questions.map((question) => [question.key, answerOf(question)])));
  };
  const toggleOption = ({ key, isMultiple }: Question, label: string) => {
    const previous = selectedOptions.get(key) ?? [];
    const next = isMultiple ? [...previous, label] : [label];
    const newSelection = new Map(selectedOptions).set(key, previous.includes(label) ? previous.filter((option) => option !== label) : next);
    // A question with a single answer has either an option or a text.
    onDraft(
      isMultiple ? { selectedOptions: newSelection } : { selectedOptions: newSelection, typedTexts: new Map(typedTexts).set(key, '') },
    );
  };
  const changeText = ({ key, isMultiple }: Question, text: string) => {
    const newTexts = new Map(typedTexts).set(key, text);
    onDraft(
      isMultiple || text === ''
        ? { typedTexts: newTexts }
        : { typedTexts: newTexts, selectedOptions: new Map(selectedOptions).set(key, []) },
    );
  };
  return (
    <form onSubmit={submit}>
      <RequestContent label="Questions" allSeenOrShowMore={allSeenOrShowMore}>
        {questions.map((question) => (
          <QuestionField
            key={question.key}
            question={question}
            selected={selectedOptions.get(question.key) ?? []}
            typed={typedTexts.get(question.key) ?? ''}
            onToggle={(label) => toggleOption(question, label)}
            onType={(text) => changeText(question, text)}
          />
        ))}
        {otherFields}
      </RequestContent>
      <RequestChoices {...choices} isForm approveLabel="Answer" canApprove={isComplete} />
    </form>
  );
}

interface QuestionFieldProps {
  question: Question;
  selected: string[];
  typed: string;
  onToggle: (label: string) => void;
  onType: (text: string) => void;
}

function QuestionField({ question, selected, typed, onToggle, onType }: QuestionFieldProps) {
  const { text, header, options, isMultiple } = question;
  const name = useId();
  return (
    <fieldset class="question">
      <legend>
        {header && (
          <span class="chip accent">
            <EscapedText text={header} />
          </span>
        )}{' '}
        <EscapedText text={text} />
      </legend>
      {options.map(({ label, description }) => (
        <label key={label} class="check">
          <input type={isMultiple ? 'checkbox' : 'radio'} name={name} checked={selected.includes(label)} onChange={() => onToggle(label)} />
          <span>
            <EscapedText text={label} />
            {description && (
              <span class="muted small">
                {' '}
                — <EscapedText text={description} />
              </span>
            )}
          </span>
        </label>
      ))}
      <input
        class="input"
        aria-label={options.length > 0 ? `Another answer to: ${text}` : `Answer to: ${text}`}
        placeholder={options.length > 0 ? 'Or type another answer' : 'Your answer'}
        value={typed}
        onInput={({ currentTarget }) => onType(currentTarget.value)}
      />
    </fieldset>
  );
}
