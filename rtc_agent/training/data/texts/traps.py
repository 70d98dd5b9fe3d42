"""Words to make sentences of that lie outside the agent's domain."""

from __future__ import annotations


def _split(listed: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in listed.split("|"))


SUBJECTS = _split(
    "the man|my sister|a small bird|the old car|our teacher|the train|that window|the children"
    "|a doctor|the river|his friend|the garden|my computer|the president|a yellow bus"
    "|the company|her brother|the market|an engineer|the report|my neighbor|the baker|a lawyer"
    "|the first team|their boss|everyone|nobody|somebody|the police|my grandmother|the pilot"
    "|a group of students|the captain|the tall woman|that horse|his cousin|the new manager"
)
VERBS = _split(
    "walked to|bought|was looking at|has broken|painted|never liked|will visit|drove past"
    "|is waiting for|talked about|found|wants to sell|cleaned|forgot|remembered|carried"
    "|is fixing|waited near|lost|described|opened|is afraid of|dreamed of|wrote about|paid for"
    "|threw away|cannot find|would like|has never seen|ran away from|is made of|laughed at"
)
OBJECTS = _split(
    "the station|a new phone|the mountain|three tickets|the kitchen table|an umbrella"
    "|some bread and butter|the library|a long letter|the football game|two pounds of sugar"
    "|the red bicycle|the meeting room|an old photograph|the winter coat|the telephone number"
    "|a glass of wine|the wooden chair|a business plan|the airport|the front door|a silver ring"
    "|the contract|a warm blanket|the second floor|a bag of potatoes|the hospital|the concert"
    "|an electric guitar|the tax form|a broken mirror|the parking lot|the swimming pool"
    "|a cheese sandwich|the shopping center|the final exam|the bank account|a quiet village"
)
TAILS = _split(
    "yesterday|last week|in the morning|on friday|after lunch|before the storm|with my cousin"
    "|in the city|for no reason|all day long|next summer|at midnight|without a word|||||"
)
JOINTS = _split("and|but|because|while|so|after|although|and then|when")
ASKING = _split(
    "where is|who owns|why did they sell|can you buy|how far is it to|when will you clean"
    "|do you remember|should i bring|what happened to|have you ever seen|how much does it cost for"
    "|could you find|what do you think about|who invented|is there|which is better|how do i fix"
    "|why do people like|what is inside|can you show me|when did they build|who is looking for"
    "|how many people know|what is the price of|is it true about|please describe|i want|give me"
)
REQUESTS = _split(
    "i need to renew my passport|the quick brown fox jumps over the lazy dog"
    "|could you transfer me to sales|my order number is wrong|set an alarm for tomorrow"
    "|play some jazz in the bedroom|i want to speak to a manager|the stock market fell again"
    "|open the window please|read me the news|call my mother|translate this sentence"
    "|order a pizza with mushrooms|find a restaurant nearby|how far is the moon"
    "|who won the election|what is the price of gold|my package has not arrived"
    "|cancel my subscription|book a flight to boston|the printer is out of paper"
    "|do you sell batteries|i forgot my password|remind me to water the plants"
    "|turn on the lights|turn off the television|send a message to my boss|write an email"
    "|what is in the news today|how do i bake bread|who is the president|when is the next bus"
    "|add milk to my shopping list|take a note|start a timer for five minutes"
    "|what is the square root of nine|how tall is the tower|who painted that picture"
    "|what is on television tonight|i want a refund|connect me to an operator"
    "|my account is locked|can i change my seat|is the store open on sunday"
    "|what is the best phone|how do i learn to drive|where can i buy shoes|i lost my keys"
    "|there is a fly in my soup|this is not what i ordered|the meeting starts at nine"
    "|please leave a message after the tone|your call is important to us|all lines are busy"
    "|i would like a table for two|how many calories are in an apple|who wrote that book"
    "|what does this word mean|convert ten miles to kilometers|check my balance"
    "|my internet is not working|how do i reset the router|what is a black hole"
    "|why do cats purr|how do airplanes fly|who discovered america|how deep is the sea"
    "|when did the war end|what is the speed of light|do you like chocolate ice cream"
    "|are there any messages for me|let me talk to your supervisor|it does not matter to me"
    "|i will call you back later today|we should paint the house|she sells sea shells"
)
WORDS = _split(
    "table|window|banana|computer|purple|mountain|seventy|elephant|music box|yesterday|coffee"
    "|maybe|always|pizza|hospital|engine|river|paper|doctor|tomorrow|kitchen|guitar|monkey"
    "|potato|summer|winter|airplane|basket|camera|danger|electric|family|garden|hammer|island"
    "|jacket|kettle|ladder|machine|number|orange juice|pencil|question|rabbit|silver|ticket"
    "|umbrella|village|weather|yellow|zebra|because|between|without|another|finally|perhaps"
    "|bottle|button|carpet|circle|corner|market|needle|office|people|pillow|pocket|rocket"
    "|salad|school|shadow|shower|spider|spoon|square|street|sugar|thunder|tiger|tunnel|wallet"
    "|america|europe|china|boston|seven hundred|half|double|nobody|something|anything|why"
    "|where|when|who|how|which|what|then|there|again and again|a little|too much"
)
LARGE_NUMBERS = _split(
    "eleven|twelve|thirteen|fifteen|nineteen|twenty|twenty one|thirty|thirty five|forty|fifty"
    "|sixty two|seventy|eighty four|ninety|ninety nine|a hundred|two hundred|a thousand|ten"
)
PATTERNS: dict[str, tuple[str, ...]] = {
    "what is the capital of {}": _split(
        "china|brazil|texas|sweden|turkey|mexico|india|austria|hungary|the moon|kenya|peru"
    ),
    "spell {}": _split(
        "elephant|banana|computer|school|window|orange|people|table|garden|chair|mouse|bread"
    ),
    "how do you spell {}": _split("mississippi|chocolate|necessary|beautiful|king|train|yellow"),
    "what is the opposite of {}": _split(
        "love|rich|early|empty|strong|sweet|full|near|long|high|easy|true|friend|blue|table"
    ),
    "what sound does a {} make": _split("horse|pig|wolf|monkey|car|train|mouse|bear|clock|frog"),
    "what color is {}": _split(
        "my shirt|a banana|the sea|blood|chocolate|an elephant|the moon|my car|a rose|milk"
    ),
    "how many legs does {} have": _split(
        "a table|a crab|a snake|a chair|a cow|my cat|an octopus|a centipede|a man"
    ),
    "what comes after {}": _split("lunch|twenty|ninety|the storm|him|fifty|midnight|the letter b"),
    "count to {}": _split("twenty|a hundred|fifty|a million|thirty|minus ten"),
    "count {}": _split("backwards|the sheep|my money|the words|again and again"),
    "what is {}": _split(
        "love|a computer|your phone number|the problem|your job|the price|democracy|this noise"
        "|that smell|wrong with you|a verb|on the table|my password|the difference|your address"
    ),
    "who is {}": _split(
        "the king of england|your father|my boss|that man|the president|at the door|the best"
    ),
    "how do i {}": _split(
        "tie a tie|cook rice|get to the airport|open this door|lose weight|use the toaster"
        "|get a refund|run faster|use the phone|start the car"
    ),
    "my name is {}": _split("not important|on the list|spelled wrong|too long|a secret"),
    "i am {}": _split("hungry|a teacher|from france|late for work|on the bus|your father|cold"),
    "are you {}": _split("coming tomorrow|from texas|ready to order|the manager|busy on friday"),
    "do you {}": _split(
        "want some tea|live in paris|know my brother|like spinach|sell shoes|have a car"
    ),
    "can you {}": _split(
        "drive a car|open the door|cook dinner|call a taxi|fix my phone|play chess|swim|whistle"
    ),
    "tell me {}": _split(
        "the truth|about the war|your secret|about dogs|the news|what to do|about your mother"
    ),
    "what day comes after {}": _split("christmas|tomorrow|the party|easter|my birthday"),
    "which month comes after {}": _split("christmas|the summer|ramadan|spring"),
    "where is {}": _split("my phone|the bathroom|paris|my order|everybody|the exit|the button"),
}
