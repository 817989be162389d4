sopa de tomate sin patatas
quiero oír a ella fitzgerald cuando suene la alarma de las seis menos cuarto
viajo a bruselas el lunes dónde me dan el mejor cambio para la libra
pronóstico para lisboa
mi abuelo aterriza en osaka a las once menos cuarto cómo llego a la terminal
necesitamos música country para la fiesta de navidad de mañana
quiero oír a madonna cuando suene la alarma de las seis y media de la mañana
diles a julia y a pedro que la videollamada sigue en pie y guárdalo
por qué está sin corriente la arrocera vuelve a dársela
mi jefe quiere cambiar yenes por liras cuál es la mejor tasa
llama al restaurante faro y pregunta si aún tienen pollo asado
a miguel le apetece cenar paella de marisco del restaurante luna de plata
estará lluvioso en atenas
dónde está mi pedido del restaurante faro tenía que llegar a las diez y diez
llévale tortilla de patatas a mi madre
viajo a nápoles el uno de mayo dónde me dan el mejor cambio para el yen
comparte la lista de reparaciones con eva
activa el equipo de música el martes a las dos de la tarde por favor
contesta a juan que a las diez y diez me viene bien
no puedo perder el tranvía mañana así que suena a las seis y media de la mañana
haz sonar el despertador de la biblioteca a las seis y media de la mañana
último autobús lanzadera del uno de mayo
que traigan albóndigas a las nueve de la noche
cuánto vale un real
jorge me ha invitado a una reunión familiar a las once menos cuarto así que anótalo
a las nueve de la noche tengo que ponerme a cocinar qué necesito para hacer rollitos de primavera
no me dejes olvidar que tengo que llamar a mi tía este sábado a las siete menos cuarto
pon la luz de la habitación de invitados en blanco frío
restaurante jardín de rosas o restaurante dragón dorado cuál es mejor para la fiesta de disfraces
hace falta comida para la cena del quince de agosto quizá sopa de fideos
a eva le apetece cenar estofado de lentejas del restaurante olivo
dónde puedo oír música country en directo en tokio
resérvame toda la tarde del tres de octubre para mi marido
envía un correo a isabel
repite el curso de formación cada semana a las diez y media de la noche
cuando llegue a casa mi hija pon todo en naranja
activa el ventilador el próximo viernes a las doce del mediodía por favor
último taxi acuático de nochevieja
hay mucho tráfico entre viena y atenas
enciende la tostadora
que traigan pollo al curry a las doce de la noche
pon a madonna en los altavoces del comedor
dónde está mi pedido del restaurante caballo blanco tenía que llegar a las dos de la tarde
dónde está mi pedido del restaurante jardín verde tenía que llegar a las nueve de la noche
a mi abuelo le encanta beethoven así que pon sus grandes éxitos
añade tomates a mi lista de acampada
viajo a múnich el próximo viernes dónde me dan el mejor cambio para el peso
restaurante molino viejo o restaurante jardín verde cuál es mejor para la cena
mi sobrina pide tomates ponlo en la lista de comestibles
despiértame hoy a las seis y media de la mañana
llama al restaurante pequeña cocina y pregunta si aún tienen fondue de queso
qué tiempo hace en londres el sábado
cuál es el tipo de cambio entre el esloti y el forinto
dile a clara a cuánto está el dírham
dale las gracias a esteban por los billetes a amberes
tiene buenas opiniones el restaurante faro de colonia
cambia las lámparas a morado
pon algo de david bowie
qué recomendó marta era queen pues ponlo
tarta de manzana sin sal
necesito una chaqueta el uno de mayo
reenvía la invitación de la reunión de antiguos alumnos a mi hermano
no me dejes olvidar que tengo que llamar a mi hija el próximo miércoles a las tres y media
cuando llegue a casa mi vecina pon todo en ámbar
me puedes despertar el sábado sobre las ocho menos cinco
restaurante faro o restaurante luna de plata cuál es mejor para la fiesta de cumpleaños
mi compañera de trabajo aterriza en venecia a las diez y diez cómo llego a la terminal
pon a miles davis en los altavoces del pasillo
a las siete menos cuarto tengo que ponerme a cocinar qué necesito para hacer pimientos rellenos
no tenemos limones ni azúcar en casa
tengo invitados este domingo debería hacer ensalada de patata
dónde puedo oír música clásica en directo en florencia
hay alguna posibilidad de tormentas para el jueves
contesta a isabel que a las tres y media me viene bien
el restaurante jardín verde reparte en roma
a maría le apetece cenar pescado con patatas fritas del restaurante pequeña cocina
hay alguna posibilidad de relámpagos para este sábado
escribe a mi hermano que llego el veinte de marzo
cuánto se tarda a pie al recinto ferial
para el taxi acuático cerca del supermercado
reenvía la invitación de la fiesta de compromiso a mi abuela
que traigan hamburguesas a las diez y diez
reúne en una lista todo lo necesario para la reunión familiar de hoy
repite la videollamada cada semana a las cinco de la mañana
contesta a pablo que a las nueve menos veinte me viene bien
mi abuela quiere cambiar euros por dinares cuál es la mejor tasa
tengo invitados el próximo miércoles debería hacer pollo al curry
busca un vuelo a milán para hoy
reúne en una lista todo lo necesario para la reunión de antiguos alumnos del próximo miércoles
puedo preparar sopa de verduras con antelación para la reunión familiar
acuérdate de comprar café
francisco hizo sopa de verduras la semana pasada quiero las instrucciones
contesta a francisco que a las siete y cuarto me viene bien
a jorge le apetece cenar pimientos rellenos del restaurante caballo blanco
último autocar de nochevieja
catalina me ha invitado a una fiesta de graduación a las siete y media así que anótalo
quiero estar en el casco antiguo a las once menos cuarto cuándo debería salir
restaurante casa de la esquina o restaurante olivo cuál es mejor para la fiesta de compromiso
apunta en mi calendario el club de lectura de estocolmo
me puedes despertar el veinte de marzo sobre las siete
último trolebús del próximo miércoles
subirá la corona el jueves
compara las temperaturas de ginebra y amberes
comparte la lista de regalos de navidad con luis
activa el horno el dos de noviembre a las seis y media de la mañana por favor
mi tía quiere cambiar dinares por euros cuál es la mejor tasa
alarma para el domingo a las cinco de la mañana
anuncian aguanieve para la clase de yoga del uno de mayo
dame una receta de tarta de manzana
tengo que comprar un regalo para mi hermano antes de las diez y diez hay por aquí una farmacia
dónde venden té en bruselas mañana
que traigan risotto de setas a las diez y media de la noche
alarma para el veinte de marzo a las cinco de la mañana
para hacer rollitos de primavera puedo usar setas en vez de zanahorias
está funcionando la tostadora si no es así dale al interruptor
pon la luz del jardín en rojo oscuro
estará frío en osaka
deja el purificador de aire funcionando hasta las seis y media de la mañana
para hacer tortilla de patatas puedo usar plátanos en vez de pan
último tren del miércoles
tiene buenas opiniones el restaurante pequeña cocina de nápoles
resérvame toda la tarde de pasado mañana para mi hermano
busca un vuelo a hamburgo para hoy
cambia el sótano de blanco a violeta
deja el enchufe funcionando hasta las tres y media
mándale a mi hijo por correo la receta de hamburguesas
dame una receta de tortilla de patatas
no me dejes olvidar que tengo que llamar a mi sobrina en nochebuena a las doce de la noche
hace falta comida para la fiesta de navidad de pasado mañana quizá tortitas
hace falta comida para la fiesta del barrio de este domingo quizá paella de marisco
tengo invitados en nochevieja debería hacer tortilla de patatas
cuando acabe las cuatro estaciones pon música clásica
hay una clínica veterinaria cerca de la plaza del mercado
lleva espinacas la receta de arroz frito
pon a vivaldi en los altavoces del despacho
apunta en mi calendario la conferencia de amberes
pasa de pesos a libras
busca una receta tradicional de pimientos rellenos de zúrich
empieza una lista de reparaciones para el tres de octubre
acuérdate de comprar patatas
para el autobús cerca de la cafetería
quiero estar en la ópera a las cinco y cuarto de la tarde cuándo debería salir
qué temperatura habrá en amberes a las siete
a las doce de la noche haz que las luces del dormitorio pasen poco a poco a azul claro
recomiéndame una buena pizzería en copenhague
todo lo que hace falta para hacer sopa de verduras va en la lista de mercado
usa un tono suave a las seis y veinte para no molestar a mi padre
lo mismo que la última vez y además salmón a la plancha
cuando acabe greensleeves pon cuartetos de cuerda
tengo invitados este domingo debería hacer estofado de lentejas
qué temperatura habrá en hamburgo a las ocho de la tarde
compara las temperaturas de tokio y venecia
la conferencia empieza a las cinco y cuarto de la tarde por favor informa a maría por correo electrónico
crea una lista con madonna y ella fitzgerald para el jueves
reúne en una lista todo lo necesario para la fiesta de graduación del uno de mayo
deberían estar en marcha tanto el proyector como la impresora
mi marido pregunta si en venecia está ventoso ahora mismo
compara las temperaturas de estrasburgo y florencia
busca la pizzería más cercana
boda en nochebuena desde las tres y media
reenvía la invitación del aniversario a mi marido
avisa a mateo y a lucía de que voy con retraso
programa un viaje a estocolmo para nochevieja
mándale a mi jefe por correo la receta de pollo asado
tengo que comprar un regalo para mi mujer antes de las ocho de la tarde hay por aquí una gasolinera
subirá el bitcoin el domingo
rupia frente a libra a las diez y diez
todo lo que hace falta para hacer rollitos de primavera va en la lista de la barbacoa
dónde puede comer rollitos de primavera mi marido en copenhague
programa un viaje a colonia para el lunes
pon la luz del taller en rojo oscuro
envía un correo a marta
último tren regional del tres de octubre
alarma para el tres de octubre a las siete y cuarto
añade un ensayo de coro con esteban el martes
me gustaría una iluminación de color ámbar para la reunión familiar
para hacer risotto de setas puedo usar pollo en vez de sal
cuando escucho ópera quiero una luz de color verde lima
la entrevista de trabajo empieza a las nueve menos veinte por favor informa a catalina por correo electrónico
qué puedo cocinar con setas y té
adjunta las fotos de núremberg y mándaselas a mi hijo
envía un correo a lucía
hay una farmacia que abra el martes hasta las tres y media
subirá el forinto el próximo lunes
activa el humidificador el domingo a las siete y cuarto por favor
apunta en mi calendario la reunión de estrasburgo
dónde puede comer ensalada verde mi compañera de piso en estocolmo
tiene buenas opiniones el restaurante gato negro de estrasburgo
puede la bombilla que está junto a la tostadora brillar en blanco cálido
tengo invitados en nochevieja debería hacer sopa de verduras
anuncian lluvia para el torneo de ajedrez del dos de noviembre
andrés hizo pollo al curry la semana pasada quiero las instrucciones
comparte la lista de tareas con josé
activa la secadora en nochevieja a las nueve y media por favor
para hacer pan de ajo puedo usar zanahorias en vez de miel
a las cinco y cuarto de la tarde haz que las luces del comedor pasen poco a poco a morado
cuándo sale el próximo tren al zoo
restaurante jardín verde o restaurante molino viejo cuál es mejor para la fiesta del barrio
mi mujer aterriza en lisboa a las cuatro de la tarde cómo llego a la terminal
activa el humidificador el próximo miércoles a las nueve de la noche por favor
pasa la videollamada al próximo miércoles porque enrique se encuentra mal
empieza una lista de jardinería para el jueves
reúne en una lista todo lo necesario para la fiesta de graduación de nochevieja
lo mismo que la última vez y además tarta de manzana
subirá el euro mañana
comparte la lista de la compra con felipe
activa el robot aspirador el dos de noviembre a las siete menos cuarto por favor
cuánto vale un baht
activa la arrocera el quince de agosto a las nueve menos veinte por favor
crea una lista con vivaldi y stevie wonder para este domingo
volamos a londres en nochevieja deberíamos llevar un cortavientos
cuando acabe el cascanueces pon jazz
se puede llegar a la oficina de correos en taxi acuático
mi primo aterriza en milán a las nueve de la noche cómo llego a la terminal
deberían estar en marcha tanto la televisión como la lavadora
a mi sobrina le encanta édith piaf así que pon sus grandes éxitos
el restaurante puente de piedra reparte en estrasburgo
el restaurante luna de plata reparte en tokio
marta hizo estofado de lentejas la semana pasada quiero las instrucciones
recuérdame la conferencia a las doce del mediodía
tengo hambre consígueme arroz frito
volamos a milán el tres de octubre deberíamos llevar unos guantes
necesito miel para el dos de noviembre apúntalo
para el autobús nocturno cerca del lavadero de coches
hay un hotel que abra el martes hasta las cinco y cuarto de la tarde
diles a miguel y a catalina que el curso de formación sigue en pie y guárdalo
acuérdate de comprar espinacas
mi abuelo quiere cambiar euros por dinares cuál es la mejor tasa
diles a luis y a ana que la cena sigue en pie y guárdalo
resérvame toda la tarde del veinte de marzo para mi compañera de piso
dile a miguel a cuánto está el yuan
escribe a mi hermano que llego en nochevieja
va puntual el autobús exprés de las seis de la tarde
comida el uno de mayo desde las seis y media de la mañana
mi marido pregunta si en praga está soleado ahora mismo
dónde está mi pedido del restaurante molino viejo tenía que llegar a las siete y media de la tarde
envía un correo a clara
mi compañera de trabajo aterriza en amberes a las diez y media de la noche cómo llego a la terminal
añade zanahorias a mi lista de la compra
dónde puedo oír música de cine en directo en bruselas
quiero oír a bach cuando suene la alarma de las siete
reenvía la invitación de la fiesta de inauguración a mi madre
alarma para el lunes a las siete
mi hermana aterriza en atenas a las tres y media cómo llego a la terminal
despiértame el veinte de marzo a las ocho menos cinco
va puntual el autobús nocturno de las cuatro de la tarde
deja el humidificador funcionando hasta las siete y media
que traigan fondue de queso a las ocho de la tarde
busca un vuelo a hamburgo para el tres de octubre
dónde venden patatas en pekín el quince de agosto
viajo a florencia el quince de agosto dónde me dan el mejor cambio para el euro
lleva arroz la receta de ensalada verde
el restaurante farolillo rojo reparte en dublín
a mi hija le encanta bob marley así que pon sus grandes éxitos
pasa la comida al tres de octubre porque mateo se encuentra mal
activa el lavavajillas el viernes a las siete y media por favor
qué tiempo hace en pekín el diez de junio
que traigan salmón a la plancha a las nueve menos veinte
cuánto se tarda a pie al museo de arte
todo lo que hace falta para hacer empanadillas va en la lista de la compra
anuncian heladas para el curso de formación de mañana
adjunta las fotos de venecia y mándaselas a mi hermano
podrías encenderle la cafetera a mi compañera de trabajo
mi profesora pide cebollas ponlo en la lista de desayuno
hace falta comida para la fiesta de despedida del próximo lunes quizá fondue de queso
mándale a mi tía por correo la receta de pimientos rellenos
tiene buenas opiniones el restaurante laguna azul de atenas
adjunta las fotos de hamburgo y mándaselas a mi abuela
dónde puedo oír blues en directo en colonia
viajo a viena hoy dónde me dan el mejor cambio para el franco
contesta a esteban que a las nueve y media me viene bien
repite el entrenamiento de fútbol cada semana a las nueve menos veinte
recuérdame el curso de formación a las ocho de la tarde
empieza una lista de llamadas para el tres de octubre
volamos a estrasburgo el miércoles deberíamos llevar unas gafas de sol
llévale sopa de tomate a mi tía
quiero oír a mozart cuando suene la alarma de las ocho menos cinco
mi abuelo pregunta si en seúl está brumoso ahora mismo
dile a mi sobrina que he perdido el trolebús
recuérdame el torneo de ajedrez a las nueve menos veinte
cambia el garaje de verde lima a blanco frío
diles a pablo y a lucía que el concierto sigue en pie y guárdalo
tiene buenas opiniones el restaurante jardín verde de múnich
mi compañera de piso aterriza en bruselas a las siete y cuarto cómo llego a la terminal
cuando llegue a casa mi vecina pon todo en coral
alarma para nochevieja a las seis y cuarto
todo lo que hace falta para hacer sopa de tomate va en la lista de pícnic
enséñale a mi jefe a preparar tortilla de patatas
cuando escucho canciones pop quiero una luz de color rosa
lo mismo que la última vez y además pollo al curry
ruta a colonia sin peajes
cuando escucho blues quiero una luz de color rojo
lo mismo que la última vez y además ensalada de patata
deja el aire acondicionado funcionando hasta las diez y media de la noche
resérvame toda la tarde del viernes para mi sobrina
tengo un ensayo de coro el veinte de marzo así que levántame a las seis y media de la mañana
adjunta las fotos de sevilla y mándaselas a mi profesora
alarma para mañana a las siete
mándale a mi tía por correo la receta de tortitas
crea un recordatorio para nochevieja
dile a mi jefe que he perdido el ferri
rojo es mi color favorito úsalo en el taller
ruta a praga sin peajes
dónde venden patatas en roma el próximo viernes
va puntual el monorraíl de las cinco de la mañana
tortilla de patatas sin azúcar
contesta a lucía que a las nueve menos veinte me viene bien
jorge hizo tarta de manzana la semana pasada quiero las instrucciones
recuérdame el entrenamiento de fútbol a las nueve menos veinte
yen frente a dólar a las diez y media de la noche
quiero oír a chaikovski cuando suene la alarma de las seis y media de la mañana
dónde venden queso en estrasburgo el tres de octubre
escribe a mi abuelo que llego el domingo
cuándo sale el próximo autocar al casco antiguo
dónde está mi pedido del restaurante pequeña cocina tenía que llegar a las cinco y cuarto de la tarde
dónde está mi pedido del restaurante olivo tenía que llegar a las siete
quiero que la arrocera esté en marcha antes de las cinco de la mañana
resérvame toda la tarde del diez de junio para mi abuela
me gustaría una iluminación de color blanco para la reunión familiar
esteban me ha invitado a una fiesta de cumpleaños a las siete y media de la tarde así que anótalo
avísame antes de las nueve y media si va a haber viento fuerte
hace falta comida para la reunión familiar del domingo quizá ensalada verde
lucía hizo rollitos de primavera la semana pasada quiero las instrucciones
hace falta comida para el aniversario del viernes quizá sopa de fideos
llama al restaurante tres hermanos y pregunta si aún tienen risotto de setas
lira frente a yen a las tres y media
pronóstico para bruselas
cita en la peluquería el jueves desde las siete menos cuarto
pregúntale a alejandro por correo si la cita con el dentista sigue siendo mañana
pon la luz del cuarto de los niños en turquesa
turquesa es mi color favorito úsalo en el cuarto de la lavadora
cuándo sale el próximo tranvía a la universidad
tengo que comprar un regalo para mi tía antes de las ocho de la tarde hay por aquí una ferretería
busca una receta tradicional de arroz frito de praga
empieza noche de paz a las siete en el taller
quiero escuchar música folclórica en el garaje
a mi hijo le encanta bach así que pon sus grandes éxitos
empieza navidad navidad a las ocho de la tarde en la habitación de invitados
qué merece la pena ver en atenas
anuncian heladas para la reunión de padres del diez de junio
usa un tono suave a las siete y media para no molestar a mi compañera de piso
quiero estar en el museo de arte a las seis de la tarde cuándo debería salir
dónde está mi pedido del restaurante olivo tenía que llegar a las siete y cuarto
llama al restaurante jardín verde y pregunta si aún tienen tortitas
mi padre aterriza en londres a las diez y diez cómo llego a la terminal
último monorraíl del quince de agosto
cuánto vale un yuan
estará cubierto en ginebra
añade sal a mi lista de repostería
por qué está sin corriente la tostadora vuelve a dársela
escribe a mi hija que llego hoy
adjunta las fotos de estocolmo y mándaselas a mi hermana
viajo a milán el uno de mayo dónde me dan el mejor cambio para el dólar
podrías encenderle el equipo de música a mi abuelo
dame una receta de paella de marisco
dónde puedo oír canciones pop en directo en zúrich
escribe a mi padre que llego hoy
qué tiempo hace en dublín el próximo miércoles
pon a vivaldi en los altavoces del garaje
qué recomendó elena era abba pues ponlo
recuérdame el club de lectura a las cuatro de la tarde
haz sonar el despertador del jardín a las nueve menos veinte
apunta en mi calendario el concierto de dublín
quiero oír a haendel cuando suene la alarma de las seis y cuarto
llama al restaurante luna de plata y pregunta si aún tienen empanadillas
pide sushi en el restaurante tres hermanos
a las nueve de la noche tengo que ponerme a cocinar qué necesito para hacer paella de marisco
dónde venden manzanas en tokio el sábado
mi sobrina pregunta si en sevilla está nublado ahora mismo
puedo preparar hamburguesas con antelación para la fiesta de despedida
recomiéndame una buena clínica veterinaria en milán
quiero que el lavavajillas esté en marcha antes de las diez y diez
envía un correo a enrique
quiero escuchar música electrónica en el despacho
el restaurante casa de la esquina reparte en atenas
qué tiempo hace en viena el diez de junio
usa un tono suave a las siete para no molestar a mi padre
anuncian inundaciones para la videollamada del viernes
despiértame el próximo miércoles a las siete menos diez
para el autobús exprés cerca de la farmacia
josé viene a las diez y media de la noche así que arranca el calefactor
pon a queen en los altavoces del jardín
puedo preparar hamburguesas con antelación para la fiesta de disfraces
maría me ha invitado a una fiesta de graduación a las siete así que anótalo
volamos a atenas este domingo deberíamos llevar un gorro
necesito una chaqueta el próximo viernes
anuncian hielo en la carretera para la cita con el dentista del próximo miércoles
real frente a bitcoin a las tres y media
qué puedo cocinar con miel y yogur
rojo oscuro es mi color favorito úsalo en el taller
recomiéndame un buen cine en seúl
empieza sonata claro de luna a las diez y diez en el sótano
programa un viaje a núremberg para el veinte de marzo
tengo que comprar un regalo para mi hija antes de las seis de la tarde hay por aquí una librería
cuando acabe marcha radetzky pon jazz
adjunta las fotos de osaka y mándaselas a mi marido
diles a felipe y a marta que el curso de formación sigue en pie y guárdalo
subirá la libra el sábado
blanco por favor
estará templado en viena
