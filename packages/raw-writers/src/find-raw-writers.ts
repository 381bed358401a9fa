import ts from 'typescript'
import { callOf, isReadOnlyOpen, WRITING_CALLS } from './writing-calls.ts'

/** A place where a source puts bytes on disk past the workspace helpers. */
export interface RawWrite {
  /** From 1. */
  line: number
  /** As it reads there, shortened. */
  code: string
  /** What of `node:fs` it is, e.g. `writeFileSync`; `fs` when the whole module is handed on. */
  call: string
}

// `traced`: it leads to an import of the real module, not only to a name that says so.
type Meaning = { kind: 'fs'; traced: boolean } | { kind: 'function'; name: string } | undefined

const FS_MODULES: ReadonlySet<string> = new Set(['fs', 'node:fs', 'fs/promises', 'node:fs/promises'])
// The engine's own primitive writes like one of `node:fs`; who imports it writes raw bytes as well.
const PRIMITIVE_MODULE = /^@nexus\/host$/
const FS: Meaning = { kind: 'fs', traced: true }
const CALLED_FS: Meaning = { kind: 'fs', traced: false }
// An injected file system has no import to go by, only its name.
const FS_NAME = /^[#_]*(?:node)?fs(?:p|Promises)?$/i

/**
 * Finds the calls that put bytes on disk: `writeFile`, `appendFile`, `createWriteStream`, `open` with a writing flag,
 * `copyFile`, `cp`, `link`, `rename`, `truncate` and their `Sync` forms, however `fs`, `node:fs` or `fs/promises` came in
 * (default, namespace, named, renamed, `require`, `import()`, destructured, aliased), or an injected `fs`. A writing
 * function or the module itself that is handed to somebody else counts, too, since what happens to it there is not
 * visible; of an injected `fs` only the calls do.
 *
 * It can't see: a descriptor that was opened elsewhere, what a third-party library writes, a child process.
 *
 * @param fileName decides the dialect by its ending
 */
export function findRawWriters(sourceText: string, fileName: string): RawWrite[] {
  const { source, checker } = bind(sourceText, fileName)
  const finder = new Finder(source, checker)
  finder.visit(source)
  return finder.found
}

/** Whether a source announces writes: calls `announceWrite` or `announceAppend`. Per file, not per write. */
export function announcesWrites(sourceText: string, fileName: string): boolean {
  const { source } = bind(sourceText, fileName)
  let announces = false
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && /^announce(?:Write|Append)$/.test(callOf(node.expression))) announces = true
    ts.forEachChild(node, visit)
  }
  visit(source)
  return announces
}

function bind(sourceText: string, fileName: string): { source: ts.SourceFile; checker: ts.TypeChecker } {
  const options: ts.CompilerOptions = { noLib: true, noResolve: true, allowJs: true, target: ts.ScriptTarget.Latest }
  const source = ts.createSourceFile(fileName, sourceText, ts.ScriptTarget.Latest, true)
  const host: ts.CompilerHost = {
    fileExists: (name) => name === fileName,
    getCanonicalFileName: (name) => name,
    getCurrentDirectory: () => '',
    getDefaultLibFileName: () => 'lib.d.ts',
    getNewLine: () => '\n',
    getSourceFile: (name) => (name === fileName ? source : undefined),
    readFile: () => undefined,
    useCaseSensitiveFileNames: () => true,
    writeFile: () => undefined,
  }
  return { source, checker: ts.createProgram([fileName], options, host).getTypeChecker() }
}

class Finder {
  readonly found: RawWrite[] = []
  readonly #source: ts.SourceFile
  readonly #checker: ts.TypeChecker

  constructor(source: ts.SourceFile, checker: ts.TypeChecker) {
    this.#source = source
    this.#checker = checker
  }

  visit(node: ts.Node): void {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isImportEqualsDeclaration(node)) return
    if (ts.isExpression(node)) this.#look(node)
    ts.forEachChild(node, (child) => this.visit(child))
  }

  #look(node: ts.Expression): void {
    if (isInnerName(node)) return
    const meaning = this.#meaning(node)
    if (meaning === undefined) return
    const { parent } = node
    if (meaning.kind === 'function') {
      if (!WRITING_CALLS.has(meaning.name)) return
      const called = (ts.isCallExpression(parent) || ts.isNewExpression(parent)) && parent.expression === node
      if (called && isReadOnlyOpen(meaning.name, parent, this.#checker)) return
      if (called || !isAlias(node)) this.#report(node, meaning.name)
    } else if (
      ts.isElementAccessExpression(parent) &&
      parent.expression === node &&
      this.#meaning(parent) === undefined
    ) {
      this.#report(node, 'fs')
    } else if (meaning.traced && !isAlias(node) && !isAccessed(node) && isHandedOn(node)) this.#report(node, 'fs')
  }

  #report(node: ts.Node, call: string): void {
    const { line } = this.#source.getLineAndCharacterOfPosition(node.getStart())
    const whole = ts.isCallExpression(node.parent) ? node.parent : node
    const code = whole.getText().replaceAll(/\s+/g, ' ')
    this.found.push({ line: line + 1, code: code.length > 80 ? `${code.slice(0, 79)}…` : code, call })
  }

  #meaning(node: ts.Expression, seen: Set<ts.Node> = new Set()): Meaning {
    if (seen.has(node)) return undefined
    seen.add(node)
    if (ts.isParenthesizedExpression(node) || ts.isNonNullExpression(node) || ts.isAwaitExpression(node)) {
      return this.#meaning(node.expression, seen)
    }
    if (ts.isAsExpression(node) || ts.isSatisfiesExpression(node)) return this.#meaning(node.expression, seen)
    if (ts.isIdentifier(node)) return this.#identifier(node, seen)
    if (ts.isPropertyAccessExpression(node)) {
      const inner = this.#meaning(node.expression, seen)
      if (inner?.kind === 'fs') return member(node.name.text)
      return FS_NAME.test(node.name.text) ? CALLED_FS : undefined
    }
    if (ts.isElementAccessExpression(node)) {
      const name = node.argumentExpression
      return this.#meaning(node.expression, seen)?.kind === 'fs' && ts.isStringLiteralLike(name)
        ? member(name.text)
        : undefined
    }
    if (ts.isBinaryExpression(node)) return this.#either(node.left, node.right, seen)
    if (ts.isConditionalExpression(node)) return this.#either(node.whenTrue, node.whenFalse, seen)
    return ts.isCallExpression(node) ? this.#call(node, seen) : undefined
  }

  #either(one: ts.Expression, other: ts.Expression, seen: Set<ts.Node>): Meaning {
    const meanings = [this.#meaning(one, seen), this.#meaning(other, seen)]
    return meanings.find((meaning) => meaning?.kind === 'fs' && meaning.traced) ?? meanings[0] ?? meanings[1]
  }

  #call(node: ts.CallExpression, seen: Set<ts.Node>): Meaning {
    const name = callOf(node.expression)
    const [first] = node.arguments
    if (first === undefined) return undefined
    const loads = name === 'require' || name === 'import' || name === 'getBuiltinModule'
    if (loads) return ts.isStringLiteralLike(first) && FS_MODULES.has(first.text) ? FS : undefined
    if (name === 'promisify') return this.#meaning(first, seen)
    if (name === 'bind' && ts.isPropertyAccessExpression(node.expression)) {
      return this.#meaning(node.expression.expression, seen)
    }
    return undefined
  }

  #identifier(node: ts.Identifier, seen: Set<ts.Node>): Meaning {
    const symbol = ts.isShorthandPropertyAssignment(node.parent)
      ? this.#checker.getShorthandAssignmentValueSymbol(node.parent)
      : this.#checker.getSymbolAtLocation(node)
    for (const declaration of symbol?.declarations ?? []) {
      const meaning = this.#declared(declaration, seen)
      if (meaning !== undefined) return meaning
    }
    return FS_NAME.test(node.text) ? CALLED_FS : undefined
  }

  #declared(declaration: ts.Declaration, seen: Set<ts.Node>): Meaning {
    if (ts.isImportClause(declaration) || ts.isNamespaceImport(declaration)) {
      return FS_MODULES.has(moduleOf(declaration)) ? FS : undefined
    }
    if (ts.isImportSpecifier(declaration)) {
      const from = moduleOf(declaration)
      const known = FS_MODULES.has(from) || PRIMITIVE_MODULE.test(from)
      return known ? member((declaration.propertyName ?? declaration.name).text) : undefined
    }
    if (ts.isImportEqualsDeclaration(declaration)) {
      const { moduleReference } = declaration
      const from = ts.isExternalModuleReference(moduleReference) ? moduleReference.expression : undefined
      return from !== undefined && ts.isStringLiteralLike(from) && FS_MODULES.has(from.text) ? FS : undefined
    }
    if (ts.isVariableDeclaration(declaration) || ts.isParameter(declaration)) {
      if (declaration.initializer !== undefined) return this.#meaning(declaration.initializer, seen)
      return ts.isParameter(declaration) ? this.#resolvedBy(declaration, seen) : undefined
    }
    return ts.isBindingElement(declaration) ? this.#destructured(declaration, seen) : undefined
  }

  #destructured(element: ts.BindingElement, seen: Set<ts.Node>): Meaning {
    const owner = element.parent.parent
    let whole: Meaning
    if (ts.isBindingElement(owner)) whole = this.#destructured(owner, seen)
    else whole = this.#declared(owner, seen)
    const name = element.propertyName ?? element.name
    if (whole?.kind === 'fs' && element.dotDotDotToken !== undefined) return FS
    if (whole?.kind === 'fs' && (ts.isIdentifier(name) || ts.isStringLiteralLike(name))) return member(name.text)
    return element.initializer === undefined ? undefined : this.#meaning(element.initializer, seen)
  }

  /** `import('node:fs').then((fs) => ...)`: the parameter is what the promise gives. */
  #resolvedBy(parameter: ts.ParameterDeclaration, seen: Set<ts.Node>): Meaning {
    const call = parameter.parent.parent
    if (!ts.isCallExpression(call) || !ts.isPropertyAccessExpression(call.expression)) return undefined
    return call.expression.name.text === 'then' ? this.#meaning(call.expression.expression, seen) : undefined
  }
}

function member(name: string): Meaning {
  return name === 'promises' || name === 'default' ? FS : { kind: 'function', name }
}

function moduleOf(node: ts.ImportClause | ts.NamespaceImport | ts.ImportSpecifier): string {
  let at: ts.Node = node
  while (!ts.isImportDeclaration(at)) at = at.parent
  return ts.isStringLiteralLike(at.moduleSpecifier) ? at.moduleSpecifier.text : ''
}

/** A name that is part of a larger expression or of a declaration, and means nothing by itself. */
function isInnerName(node: ts.Expression): boolean {
  const { parent } = node
  if (ts.isPropertyAccessExpression(parent) && parent.name === node) return true
  if (ts.isParenthesizedExpression(parent) || ts.isAwaitExpression(parent) || ts.isAsExpression(parent)) return true
  if (ts.isNonNullExpression(parent) || ts.isSatisfiesExpression(parent) || ts.isTypeQueryNode(parent)) return true
  if (ts.isPropertyAssignment(parent)) return parent.name === node
  return 'name' in parent && parent.name === node && !ts.isShorthandPropertyAssignment(parent)
}

/** Whether the expression only gives the function or module another name in this file, which is followed. */
function isAlias(node: ts.Expression): boolean {
  const at = outermost(node)
  const { parent } = at
  if (ts.isVariableDeclaration(parent) || ts.isParameter(parent)) return parent.initializer === at
  if (ts.isBindingElement(parent)) return parent.initializer === at || parent.propertyName === at
  // `promisify(writeFile)` and `writeFile.bind(...)` are followed like the name itself.
  if (ts.isCallExpression(parent) && callOf(parent.expression) === 'promisify') return isAlias(parent)
  if (ts.isPropertyAccessExpression(parent) && parent.name.text === 'bind' && ts.isCallExpression(parent.parent)) {
    return isAlias(parent.parent)
  }
  const assigned = ts.isBinaryExpression(parent) && parent.operatorToken.kind === ts.SyntaxKind.EqualsToken
  return assigned && parent.right === at && FS_NAME.test(callOf(parent.left))
}

/** The expression with what stands around it without changing its meaning. */
function outermost(node: ts.Expression): ts.Expression {
  let at = node
  for (;;) {
    const { parent } = at
    const chosen =
      ts.isConditionalExpression(parent) ||
      (ts.isBinaryExpression(parent) &&
        [ts.SyntaxKind.QuestionQuestionToken, ts.SyntaxKind.BarBarToken].includes(parent.operatorToken.kind))
    if (!chosen && !ts.isParenthesizedExpression(parent) && !ts.isAwaitExpression(parent)) return at
    at = parent
  }
}

function isAccessed(node: ts.Expression): boolean {
  const { parent } = outermost(node)
  return ts.isPropertyAccessExpression(parent) || ts.isElementAccessExpression(parent)
}

function isHandedOn(node: ts.Expression): boolean {
  const at = outermost(node)
  const { parent } = at
  if (ts.isCallExpression(parent) || ts.isNewExpression(parent)) {
    return parent.arguments?.includes(at) === true && callOf(parent.expression) !== 'bind'
  }
  return (
    ts.isSpreadAssignment(parent) ||
    ts.isReturnStatement(parent) ||
    ts.isExportAssignment(parent) ||
    ts.isArrowFunction(parent) ||
    ts.isPropertyDeclaration(parent)
  )
}
