/** Questions of an agent: the forms of `elicitation/create`, and permission requests that contain questions. */

import { asList, asObject, isObject, isText } from './values.mjs';

/** A question with choices may have a second property, for a typed answer. Its name is the name of the first property and this suffix. */
const CUSTOM_SUFFIX = '_custom';
const YES = 'Yes';
const NO = 'No';

/**
 * @typedef {{id: string, question: string, header: string, options: {label: string, description: string}[],
 *   multiSelect: boolean}} Question as in `arguments.questions` of a permission request at the hub
 */

/**
 * Returns the questions of a form.
 * @param {{message?: unknown, requestedSchema?: unknown}} form
 * @param {unknown} [fullQuestions] the questions with their full texts, from the input of the tool call that shows the form
 * @returns {Question[]}
 */
export function toQuestions({ message, requestedSchema }, fullQuestions) {
  const properties = propertiesOf(requestedSchema);
  const questions = Object.keys(properties)
    .filter((key) => !isTypedAnswer(key, properties))
    .map((id, index, all) =>
      toQuestion(id, properties[id], asList(fullQuestions)[index]?.question ?? (all.length === 1 ? message : undefined)),
    );
  const [first] = questions;
  const isShown = questions.some(({ question }) => question === message) || asList(fullQuestions).length > 0;
  if (first && isText(message) && !isShown) first.question = `${message}\n${first.question}`;
  return questions;
}

/**
 * Returns the result of `elicitation/create`.
 * @param {{requestedSchema?: unknown}} form
 * @param {import('./permissions.mjs').Decision} decision
 */
export function elicitationResult({ requestedSchema }, { status, decision, answers = {} }) {
  if (status === 'canceled' || decision === 'abort') return { action: 'cancel' };
  if (status === 'denied') return { action: 'decline' };
  const properties = propertiesOf(requestedSchema);
  const content = {};
  for (const [key, property] of Object.entries(properties)) {
    if (!isTypedAnswer(key, properties)) Object.assign(content, toFormFields(key, property, answersOf(answers[key]), properties));
  }
  return { action: 'accept', content };
}

/**
 * Returns the questions of a permission request, without the fields that clients of the hub do not know.
 * @param {unknown} rawInput of its tool call
 * @returns {Question[]} empty if the request asks for something else
 */
export function questionsOfCall(rawInput) {
  const questions = asList(asObject(rawInput).questions).filter((item) => isText(item?.question));
  return questions.map(({ question, header, options, multiSelect }, index) => ({
    id: `question_${index}`,
    question,
    header: isText(header) ? header : '',
    options: asList(options)
      .filter((option) => isText(option?.label))
      .map(toOption),
    multiSelect: multiSelect === true,
  }));
}

/**
 * Returns the answers to the questions of a permission request, by position.
 * @param {Question[]} questions
 * @param {import('./permissions.mjs').Decision['answers']} answers
 */
export const answersByPosition = (questions, answers = {}) =>
  Object.fromEntries(
    questions.flatMap(({ id }, index) => {
      const given = answersOf(answers[id]);
      return given.length > 0 ? [[`${index}`, given.join(', ')]] : [];
    }),
  );

const propertiesOf = (schema) => asObject(asObject(schema).properties);

const isTypedAnswer = (key, properties) => key.endsWith(CUSTOM_SUFFIX) && Object.hasOwn(properties, key.slice(0, -CUSTOM_SUFFIX.length));

const answersOf = (answer) => asList(isObject(answer) ? answer.answers : answer).filter(isText);

const toOption = (/** @type {ReturnType<typeof choicesOf>[number]} */ { label, description }) => ({
  label,
  description: isText(description) ? description : '',
});

function toQuestion(id, property, text) {
  const { title, description } = asObject(property);
  const question = [text, description, title, id].find(isText);
  return {
    id,
    question,
    header: isText(title) && title !== question ? title : '',
    options: choicesOf(property).map(toOption),
    multiSelect: property?.type === 'array',
  };
}

/**
 * Returns the choices of a property: the label that users see, and the value that the agent expects.
 * @returns {{label: string, description?: unknown, value: string | boolean}[]}
 */
function choicesOf(property) {
  const { type, items, oneOf, enum: values } = asObject(property);
  if (type === 'boolean')
    return [
      { label: YES, value: true },
      { label: NO, value: false },
    ];
  if (type === 'array') return choicesOf({ ...asObject(items), oneOf: items?.anyOf ?? items?.oneOf, type: undefined });
  if (Array.isArray(oneOf)) {
    return oneOf
      .filter((choice) => isText(choice?.const))
      .map((choice) => ({
        label: isText(choice.title) ? choice.title : choice.const,
        description: choice.description,
        value: choice.const,
      }));
  }
  return asList(values)
    .filter(isText)
    .map((value) => ({ label: value, value }));
}

/** Returns the fields of a form for the answers to one question. */
function toFormFields(key, property, given, properties) {
  if (given.length === 0) return {};
  const choices = choicesOf(property);
  const chosen = given
    .map((label) => choices.find((choice) => choice.label === label))
    .filter(Boolean)
    .map(({ value }) => value);
  const typed = given.filter((label) => !choices.some((choice) => choice.label === label));
  if (choices.length === 0)
    return { [key]: isNumeric(property) && Number.isFinite(Number(typed[0])) ? Number(typed[0]) : typed.join(', ') };
  return {
    ...(chosen.length > 0 && { [key]: property.type === 'array' ? chosen : chosen[0] }),
    ...(typed.length > 0 && Object.hasOwn(properties, key + CUSTOM_SUFFIX) && { [key + CUSTOM_SUFFIX]: typed.join(', ') }),
  };
}

const isNumeric = (property) => property?.type === 'number' || property?.type === 'integer';
